"""The compute device of fusion: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`; autocast on CUDA; running out of memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from core.errors import ConfigError
from models.seeding import seeded

__all__ = ["autocast", "find_device", "out_of_memory", "seeded_on"]

_FORM = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
#: Messages of torch, ONNX Runtime and C++, in lower case.
_NO_MEMORY = ("out of memory", "can't allocate memory", "failed to allocate", "bad_alloc", "bad allocation")


def find_device(text: str) -> torch.device:
    """The device called `text`; `auto` is a CUDA or Apple GPU if there is one, else the CPU."""
    if not _FORM.fullmatch(text):
        raise ConfigError(f"unknown compute device {text!r}; give auto, cpu, cuda, cuda:1 or mps")
    if text == "auto":
        text = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if text.startswith("cuda"):
        gpu_index, gpu_count = int(text[5:] or 0), torch.cuda.device_count() if torch.cuda.is_available() else 0
        if gpu_index >= gpu_count:
            raise ConfigError(
                f"compute device {text!r}: torch finds {gpu_count or 'no'} CUDA devices; give auto or cpu"
            )
    if text == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("compute device 'mps': this machine has no Apple GPU that torch can use; give auto or cpu")
    return torch.device(text)


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 if a CUDA device supports it; otherwise nothing changes.

    bfloat16 has float32's range, so no gradient needs scaling. On the CPU it is slower than float32.
    """
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def out_of_memory(error: BaseException) -> bool:
    """Whether a smaller batch may help."""
    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return True
    return any(words in str(error).lower() for words in _NO_MEMORY)


@contextmanager
def seeded_on(device: torch.device, generator: torch.Generator) -> Iterator[None]:
    """A context in which torch's global random state on `device`, used by dropout, is seeded from `generator`."""
    with seeded(generator):
        if device.type != "cuda":
            yield
            return
        with torch.random.fork_rng(devices=[device]), torch.cuda.device(device):
            torch.cuda.manual_seed(torch.initial_seed())
            yield
