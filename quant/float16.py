"""Floats as sent on the wire: float16 if the tensor is in its normal range, else float32. NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ConfigError

__all__ = ["FLOATS", "HALF_MAX", "HALF_MIN", "as_wire", "check_floats"]

FLOATS = ("fp16", "fp32")
HALF_MIN, HALF_MAX = 2.0**-14, 65504.0  # smallest normal and largest float16


def check_floats(floats: str) -> None:
    """Only `fp16` and `fp32` are known."""
    if floats not in FLOATS:
        raise ConfigError(f"unknown floats {floats!r}; known: {' '.join(FLOATS)}")


def as_wire(array: NDArray[Any], floats: str) -> NDArray[Any]:
    """`array` as `floats`; integers stay as they are.

    A tensor with a value beyond float16's range, or with only subnormal ones, stays float32.
    """
    if array.dtype.kind != "f":
        return array
    array = array.astype(np.float32, copy=False)
    if floats == "fp32":
        return array
    top = np.abs(array).max(initial=0.0)  # NaN does not fit either: the wire refuses it by name
    fits = top == 0 or HALF_MIN <= top <= HALF_MAX
    return array.astype(np.float16) if fits else array
