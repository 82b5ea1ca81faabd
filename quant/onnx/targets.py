"""Which form of a graph an older ONNX Runtime, or a bound on the opset, asks for. Imports no torch.

Measured with the zoo's graphs on x86 (tests/quant/onnx/test_runtimes.py loads them again):

    levels as        opset, IR    ONNX Runtime from
    INT8             18, 8        1.15
    INT4             21, 10       1.19
    INT2             25, 13       1.24
    MatMulNBits, 4   18, 8        1.19 (1.17 and 1.18 run it with larger rounding errors)
    MatMulNBits, 2   18, 8        1.28 (1.24 to 1.27 run it without the fast kernel)

8-bit levels are stored as INT8 in any case, and float weights need nothing of this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.errors import ConfigError
from quant.onnx.lowbit import STORAGES, LowBits
from quant.onnx.weights import EXPORT_OPSET

__all__ = ["OLDEST_RUNTIME", "Target", "target_of_opset", "target_of_runtime"]

Version = tuple[int, int]
OLDEST_RUNTIME: Version = (1, 15)
_LEVELS: tuple[tuple[LowBits, Version], ...] = (("int2", (1, 24)), ("int4", (1, 19)), ("int8", OLDEST_RUNTIME))
_NBITS: tuple[tuple[int, Version], ...] = ((2, (1, 28)), (4, (1, 19)))
MAX_OPSET = 25


@dataclass(frozen=True, slots=True)
class Target:
    """The storage of 1- and 2-bit levels, and the bits of MatMulNBits; None if the runtime lacks it."""

    low_bits: LowBits
    nbits: int | None


def target_of_runtime(text: str) -> Target:
    """The narrowest forms that this ONNX Runtime runs.

    >>> target_of_runtime("1.20")
    Target(low_bits='int4', nbits=4)
    """
    found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\d+)?", text)
    if found is None:
        raise ConfigError(f"--runtime {text!r}: give a version of ONNX Runtime, such as 1.20")
    version = int(found[1]), int(found[2])
    if version < OLDEST_RUNTIME:
        oldest = ".".join(map(str, OLDEST_RUNTIME))
        raise ConfigError(f"--runtime {text}: files are made for ONNX Runtime {oldest} and newer")
    low_bits = next(name for name, since in _LEVELS if version >= since)
    return Target(low_bits, next((bits for bits, since in _NBITS if version >= since), None))


def target_of_opset(opset: int) -> Target:
    """The narrowest forms that need no newer opset.

    >>> target_of_opset(21).low_bits, target_of_opset(24).low_bits
    ('int4', 'int4')
    """
    if not EXPORT_OPSET <= opset <= MAX_OPSET:
        raise ConfigError(f"--opset {opset}: files are made for opset {EXPORT_OPSET} to {MAX_OPSET}")
    names: tuple[LowBits, ...] = ("int2", "int4")
    return Target(next((name for name in names if STORAGES[name].opset <= opset), "int8"), 2)
