"""Which form of a graph an older ONNX Runtime, or a bound on the opset, asks for. Imports no torch.

Measured with the zoo's graphs on x86 (tests/quant/onnx/test_runtimes.py loads them again):

    levels as        opset, IR    ONNX Runtime from
    INT8             18, 8        1.15
    INT4             21, 10       1.19
    INT2             25, 13       1.24
    MatMulNBits, 4   18, 8        1.19 (1.17 and 1.18 run it with larger rounding errors)
    MatMulNBits, 2   18, 8        1.28 (1.24 to 1.27 run it without the fast kernel)

8-bit levels are stored as INT8 in any case, and float weights need nothing of this. Imports neither NumPy nor onnx:
the agent checks its settings with this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import ConfigError

if TYPE_CHECKING:
    from quant.onnx.integers.lowbit import LowBits

__all__ = ["OLDEST_RUNTIME", "Target", "target_of_opset", "target_of_runtime"]

Version = tuple[int, int]
OLDEST_RUNTIME: Version = (1, 15)
NEWEST_MAJOR = 1  # a newer minor version reads what older ones read
#: Storage of levels, the runtime that runs it, and the opset that it needs.
_LEVELS: tuple[tuple[LowBits, Version, int], ...] = (
    ("int2", (1, 24), 25),
    ("int4", (1, 19), 21),
    ("int8", OLDEST_RUNTIME, 18),
)
_NBITS: tuple[tuple[int, Version], ...] = ((2, (1, 28)), (4, (1, 19)))
MIN_OPSET, MAX_OPSET = 18, 25


@dataclass(frozen=True, slots=True)
class Target:
    """The storage of 1- and 2-bit levels, and the bits of MatMulNBits; None if the runtime lacks it."""

    low_bits: LowBits
    nbits: int | None


def target_of_runtime(text: str, what: str = "--runtime") -> Target:
    """The narrowest forms that this ONNX Runtime runs; errors name the setting, `what`.

    >>> target_of_runtime("1.20")
    Target(low_bits='int4', nbits=4)
    """
    found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\d+)?", text)
    if found is None:
        raise ConfigError(f"{what} {text!r}: give a version of ONNX Runtime, such as 1.20")
    version = int(found[1]), int(found[2])
    if version[0] > NEWEST_MAJOR:
        raise ConfigError(f"{what} {text}: no ONNX Runtime {found[1]} is known; give a version such as 1.20")
    if version < OLDEST_RUNTIME:
        oldest = ".".join(map(str, OLDEST_RUNTIME))
        raise ConfigError(f"{what} {text}: files are made for ONNX Runtime {oldest} and newer")
    low_bits = next(name for name, since, _ in _LEVELS if version >= since)
    return Target(low_bits, next((bits for bits, since in _NBITS if version >= since), None))


def target_of_opset(opset: int) -> Target:
    """The narrowest forms that need no newer opset.

    >>> target_of_opset(21).low_bits, target_of_opset(24).low_bits
    ('int4', 'int4')
    """
    if not MIN_OPSET <= opset <= MAX_OPSET:
        raise ConfigError(f"--opset {opset}: files are made for opset {MIN_OPSET} to {MAX_OPSET}")
    return Target(next(name for name, _, needed in _LEVELS if needed <= opset), 2)
