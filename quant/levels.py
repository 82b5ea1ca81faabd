"""Full-precision weights as levels, scale and mean, in NumPy: what the quantized layers compute with. Imports no torch.

    1 bit         mean mu + s * sign(c), c = w - mean(w)              as `quant/binary.py`
    8 and 4 bit   s = max|w| / (2^(b-1) - 1), per output channel      as `quant/brevitas_layers.py`
    2 bit         s = 1.5 mean|w|, per output channel

Means and variances equal torch's up to the rounding of a float32 sum. At 1 bit they are then rounded to float16: both
round to the same number, except next to a rounding boundary, where they are neighbours (1.4 of 10,000 random filters).
A weight that has two float16 values already, because one device sent it or all agree on it, is often exactly on such a
boundary. Levels are equal in either case; and torch's own sums differ as much between processors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from quant.float16 import HALF_MAX, HALF_MIN
from wire.tensors import Packed

__all__ = ["quantized", "two_values"]

Floats = NDArray[np.float32]
LEAST_SCALE = np.float32(1e-10)  # Brevitas' floor of a statistic, before it is divided by the number of levels


def quantized(weight: NDArray[np.generic], bits: int, *, per_channel: bool) -> Packed:
    """A weight in `bits` bits; without `per_channel`, which more than one bit needs, it has one scale and one mean."""
    w = weight.astype(np.float32)
    if bits == 1:
        axes = tuple(range(1, w.ndim)) if per_channel else tuple(range(w.ndim))
        mid, centred, scale = two_values(w, axes)
        shape = (len(w),) if per_channel else ()
        levels = np.where(np.signbit(centred), -1, 1).astype(np.int8)
        half = (part.astype(np.float16).reshape(shape) for part in (scale, mid))
        return Packed(bits=1, levels=levels, scale=next(half), mean=next(half))
    if not per_channel:
        raise ModelError(f"a weight of {bits} bits with one scale for all output channels")
    rows, top = np.abs(w).reshape(len(w), -1), 2 ** (bits - 1) - 1
    size = np.float32(1.5) * rows.mean(1) if bits == 2 else rows.max(1)
    scale = np.maximum(size, LEAST_SCALE) / np.float32(top)
    column = scale.reshape(-1, *(1,) * (w.ndim - 1))
    return Packed(bits=bits, levels=np.clip(np.rint(w / column), -top, top).astype(np.int8), scale=scale)


def two_values(w: Floats, axes: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Midpoint, centred weight and scale over `axes`, which stay with length 1; midpoint and scale are rounded to
    float16."""
    mean = w.mean(axes, keepdims=True)
    centred = w - _half(np.clip(mean, -HALF_MAX, HALF_MAX))
    tilt = np.copysign(np.float32(1), centred).mean(axes, keepdims=True)
    rms = np.sqrt(np.square(centred).mean(axes, keepdims=True))
    least = np.float32(mean.size / w.size)
    scale = _half(np.clip(rms / np.sqrt(np.maximum(1 - np.square(tilt), least)), HALF_MIN, HALF_MAX))
    return _half(np.clip(mean - scale * tilt, -HALF_MAX, HALF_MAX)), centred, scale


def _half(value: Floats) -> Floats:
    return value.astype(np.float16).astype(np.float32)
