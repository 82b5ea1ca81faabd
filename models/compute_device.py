"""The compute device: found by its name, described, set up for repeatable results; running out of its memory.

No seed is ever drawn on it: batches, masks of dropout, noise and labels are drawn on the CPU and moved, so that a seed
gives the same draws on every device (`models/seeding.py`, docs/gpu.md). Until a device is used, nothing here
initializes it: a process that has used CUDA cannot be forked into workers that do.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from core.errors import ConfigError
from core.settings.compute_names import check_device_name

__all__ = [
    "CPU",
    "autocast",
    "describe",
    "devices_of",
    "find_device",
    "has_accelerator",
    "initialized",
    "out_of_memory",
    "repeatable_on",
    "widened",
]

CPU = torch.device("cpu")
#: Messages of torch, ONNX Runtime and C++, in lower case.
_NO_MEMORY = ("out of memory", "can't allocate memory", "failed to allocate", "bad_alloc", "bad allocation")


def find_device(text: str) -> torch.device:
    """The device called `text`; `auto` is a CUDA or Apple GPU if there is one, else the CPU."""
    check_device_name(text, registered=torch._C._get_privateuse1_backend_name())
    if text == "auto":
        text = next((name for name in ("cuda", "mps") if _count(name)), "cpu")
    kind, _, index = text.partition(":")
    if int(index or 0) >= _count(kind):
        raise ConfigError(f"compute device {text!r}: {_found(kind)}; give auto or cpu")
    return torch.device(text)


def _count(kind: str) -> int:
    """The number of devices of this kind. Of CUDA devices it asks NVML where it can, which initializes nothing."""
    if kind in ("cpu", "mps"):
        return int(kind == "cpu" or torch.backends.mps.is_available())
    module = getattr(torch, kind, None)
    return int(module.device_count()) if module is not None and hasattr(module, "device_count") else 0


def _found(kind: str) -> str:
    """What torch finds of a kind that has not enough devices, in words."""
    if kind == "mps":
        return "this machine has no Apple GPU that torch can use"
    if kind == "cuda" and not torch.backends.cuda.is_built():
        return f"torch finds no CUDA devices: torch {torch.__version__} is built without CUDA"
    return f"torch finds {_count(kind) or 'no'} {kind.upper()} devices"


def devices_of(device: torch.device) -> list[torch.device]:
    """The devices that share its work: all CUDA devices for `cuda`, else itself. Worker i takes the i mod n-th."""
    if device.type != "cuda" or ":" in str(device):
        return [device]
    return [torch.device("cuda", n) for n in range(_count("cuda"))] or [device]


def describe(device: torch.device, asked: str = "") -> str:
    """The device for logs and displays, such as `cuda:0 (Orin)`; why `auto` is the CPU."""
    if device.type == "cpu":
        return f"cpu ({_found('cuda')})" if asked == "auto" else "cpu"
    if device.type != "cuda":
        return str(device)
    index = torch.cuda.current_device() if device.index is None else device.index
    return f"cuda:{index} ({torch.cuda.get_device_name(index)})"


def has_accelerator() -> bool:
    """Whether torch has a GPU, or another accelerator, in this process."""
    return any(map(_count, ("cuda", "mps", torch._C._get_privateuse1_backend_name())))


def initialized(device: torch.device) -> bool:
    """Whether this process has used the device: its forks then cannot."""
    module = getattr(torch, device.type, None)
    return device.type != "cpu" and module is not None and bool(getattr(module, "is_initialized", bool)())


def repeatable_on(device: torch.device) -> None:
    """Choose algorithms of CUDA that give the same bits in every attempt, at float32's own precision.

    cuDNN would otherwise choose by measuring, add in any order, and round the inputs of convolutions to TF32.
    Operations that have no such algorithm warn, and are used.
    """
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined, unused-ignore]


def autocast(device: torch.device, amp: str) -> AbstractContextManager[object]:
    """Mixed precision around a forward pass: nothing if it is off, else autocast to bfloat16.

    bfloat16 has float32's range, so no gradient needs scaling. A GPU without it is refused.
    """
    if amp == "off":
        return nullcontext()
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ConfigError(f"amp = {amp!r}: {describe(device)} has no bfloat16; set amp to off")
    return torch.autocast(device.type, torch.bfloat16)


def widened(logits: Tensor) -> Tensor:
    """Logits at float32 where autocast has made them bfloat16: losses are never computed in it."""
    return logits.float() if logits.dtype == torch.bfloat16 else logits


def out_of_memory(error: BaseException) -> bool:
    """Whether a smaller batch may help."""
    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return True
    return any(words in str(error).lower() for words in _NO_MEMORY)
