"""A quantized tensor: small integers, a scale, an optional mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import NonFiniteError, TensorError
from wire.tensors.bits import BITS, check_levels

__all__ = ["Packed", "check_finite"]

FLOATS = (np.dtype(np.float16), np.dtype(np.float32))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packed:
    """A tensor of `bits`-bit integers with a scale and an optional mean: value = mean + scale * level.

    >>> signs = np.array([[1, -1], [-1, -1]], np.int8)
    >>> w = Packed(bits=1, levels=signs, scale=np.array([0.5, 2], np.float16), mean=np.array([0, 1], np.float16))
    >>> w.dequantize().tolist()
    [[0.5, -0.5], [-1.0, -1.0]]
    """

    bits: int  # 1, 2, 4 or 8
    levels: NDArray[np.int8]  # the tensor's own shape; {-1, 1} at 1 bit, else -(2**(b-1)-1) .. 2**(b-1)-1
    scale: NDArray[Any]  # float16 or float32; shape () or (levels.shape[0],): per tensor or per output channel
    mean: NDArray[Any] | None = None  # of the scale's dtype and shape

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuse values that the format cannot carry; called again before sending, because arrays are mutable."""
        if self.bits not in BITS:
            raise TensorError(f"bits is {self.bits!r}, must be one of {BITS}")
        if not isinstance(self.levels, np.ndarray) or self.levels.dtype != np.int8:
            raise TensorError(f"levels are {_kind(self.levels)}, must be an int8 array")
        if not isinstance(self.scale, np.ndarray) or self.scale.dtype not in FLOATS:
            raise TensorError(f"scale is {_kind(self.scale)}, must be a float16 or float32 array")
        if self.scale.shape not in ((), self.levels.shape[:1]):
            raise TensorError(f"scale is {self.scale.shape}, must be () or {self.levels.shape[:1]}")
        check_finite(self.scale, "scale")
        if self.mean is not None:
            if (_kind(self.mean), np.shape(self.mean)) != (_kind(self.scale), self.scale.shape):
                raise TensorError(f"mean is {_kind(self.mean)} {np.shape(self.mean)}, must be like the scale")
            check_finite(self.mean, "mean")
        try:
            check_levels(self.levels, self.bits)
        except ValueError as exc:
            raise TensorError(str(exc)) from None

    def dequantize(self) -> NDArray[np.float32]:
        """The float32 values, in this order of operations: mean + scale * level."""
        values = self.levels.astype(np.float32) * self._spread(self.scale)
        values = values if self.mean is None else self._spread(self.mean) + values
        return np.asarray(values)  # NumPy turns a zero-dimensional array into a scalar

    def _spread(self, per_channel: NDArray[Any]) -> NDArray[np.float32]:
        shape = per_channel.shape + (1,) * (self.levels.ndim - 1) if per_channel.ndim else ()
        return per_channel.astype(np.float32).reshape(shape)

    def __eq__(self, other: object) -> bool:
        """Equal bits, levels, scale and mean, dtypes included."""
        if not isinstance(other, Packed):
            return NotImplemented
        mine, theirs = (self.levels, self.scale, self.mean), (other.levels, other.scale, other.mean)
        return self.bits == other.bits and all(
            _kind(a) == _kind(b) and (a is None or b is None or np.array_equal(a, b))
            for a, b in zip(mine, theirs, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]


def check_finite(array: NDArray[Any], what: str) -> None:
    """Refuse NaN and infinity."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise NonFiniteError(f"{what} holds NaN or infinity")


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__
