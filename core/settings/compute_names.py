"""Names of compute devices and of mixed precisions in configurations. Imports no torch.

    auto                 a GPU that torch can use, else the CPU
    cpu, mps             the processor, an Apple GPU
    cuda, cuda:1         an NVIDIA GPU; where several may compute, `cuda` is all of them
    npu, npu:0, ...      an accelerator that an installed package registers with torch (entry point `torch.backends`)

Whether the device is there is found by `models/compute_device.py`, in a process that has torch.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import Any, Literal, get_args

from core.errors import ConfigError

__all__ = ["AMP", "Amp", "check_device_name", "device_name"]

#: Mixed precision: off, or autocast to bfloat16.
Amp = Literal["off", "bf16"]
AMP = get_args(Amp)
_KNOWN = re.compile(r"auto|cpu|mps|cuda(:[0-9]{1,3})?")
_REGISTERED = re.compile(r"[a-z][a-z0-9_]{1,30}(:[0-9]{1,3})?")


def check_device_name(text: str, *, registered: str = "") -> None:
    """Raise `ConfigError` for what is no name of a device; `registered` is one that torch has in this process."""
    if _KNOWN.fullmatch(text):
        return
    if _REGISTERED.fullmatch(text) and (text.partition(":")[0] == registered or entry_points(group="torch.backends")):
        return
    raise ConfigError(f"unknown compute device {text[:40]!r}; give auto, cpu, cuda, cuda:1 or mps")


def device_name(value: Any) -> str:
    """A device as a file or a variable has it; ValueError says how to write one."""
    text = str(value).strip()
    try:
        check_device_name(text)
    except ConfigError as error:
        raise ValueError(str(error).partition("; ")[2]) from None
    return text
