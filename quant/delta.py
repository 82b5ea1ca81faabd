"""Differences to the received model at 8, 4, 2 or 1 bit, with error feedback. NumPy only: light agents use it too.

    u_t = (w_t - b_t) + e_t,   q_t = Q(u_t),   e_{t+1} = u_t - q_t        the device sends q_t and keeps e_{t+1}

b_t is the received model, w_t the trained one, e_0 = 0. The rounding error of one round is sent in a later one, so the
sum of the sent updates stays within one residual of the sum of the true updates, for every contraction Q, |u - Q(u)| <
|u|: Seide et al. 2014, "1-Bit Stochastic Gradient Descent"; Karimireddy et al. 2019, "Error Feedback Fixes SignSGD",
arXiv:1901.09847, Algorithm 2. The four Q below are contractions, row by row:

    8, 4 bit  level = round(u / s),  s = max|u| / (2^(b-1) - 1)
    2 bit     level = sign(u) where |u| > 0.7 mean|u|, else 0;  s = mean of those |u|: Li et al. 2016, arXiv:1605.04711
    1 bit     level = sign(u),  s = mean|u|, the scale with the least squared error

A row is an output channel. Vectors (biases, norm layers) are one row, and have at least 8 bits: they are small, and a
1-bit step in a variance could make it negative. Integers are sent exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ConfigError, ModelError
from wire.tensors import Packed, Tensor

__all__ = ["apply_delta", "encode_delta"]

Arrays = Mapping[str, NDArray[Any]]
_HALF_MIN, _HALF_MAX = 2.0**-14, 65504.0


def encode_delta(
    new: Arrays, base: Arrays, residual: Arrays | None, bits: int
) -> tuple[dict[str, Tensor], dict[str, NDArray[np.float32]]]:
    """The difference `new - base + residual` at `bits` bit, and the residual to pass to the next call.

    The residual is the receiver's error: (new + residual) - apply_delta(base, tensors), bit-exactly.
    """
    if bits not in (8, 4, 2, 1):
        raise ConfigError(f"a delta of {bits} bit is not known; give 8, 4, 2 or 1")
    residual = {} if residual is None else residual
    _check(new, base, residual)
    tensors: dict[str, Tensor] = {}
    left: dict[str, NDArray[np.float32]] = {}
    for name, value in new.items():
        if value.dtype.kind != "f":
            tensors[name] = value.copy()
            continue
        target = value.astype(np.float32)
        if name in residual:
            target += residual[name]
        delta = np.asarray(target - base[name].astype(np.float32))
        tensors[name] = _quantize(name, delta, bits if value.ndim > 1 else 8)
        left[name] = np.asarray(target - _apply(name, base[name], tensors[name]))
    return tensors, left


def apply_delta(base: Arrays, tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """The receiver's side: base + delta, float32; a running variance that rounding made negative becomes 0."""
    if base.keys() != tensors.keys():
        raise ModelError(f"delta and model differ in {_first(base.keys() ^ tensors.keys())}; is it another prototype?")
    return {name: _apply(name, base[name], tensor) for name, tensor in tensors.items()}


def _apply(name: str, base: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    shape = tensor.levels.shape if isinstance(tensor, Packed) else tensor.shape
    if shape != base.shape:
        raise ModelError(f"the delta of {name!r} is {shape}, expected {base.shape}; is it another prototype?")
    if base.dtype.kind != "f":
        return np.array(tensor.dequantize() if isinstance(tensor, Packed) else tensor, dtype=base.dtype)
    delta = tensor.dequantize() if isinstance(tensor, Packed) else tensor.astype(np.float32)
    value = np.asarray(base.astype(np.float32) + delta)  # NumPy turns a zero-dimensional array into a scalar
    return np.maximum(value, 0) if name.endswith("running_var") else value


def _quantize(name: str, u: NDArray[np.float32], bits: int) -> Packed:
    """Q(u) by row."""
    if not np.isfinite(u).all():
        raise ModelError(f"the difference of {name!r} is NaN or infinite; has training diverged?")
    rows = u.reshape(len(u), -1) if u.ndim > 1 and u.size else u.reshape(1, -1)
    scale, levels = _sign(rows) if bits == 1 else _ternary(rows) if bits == 2 else _uniform(rows, bits)
    if len(rows) == 1:
        scale = scale.reshape(())
    return Packed(bits=bits, levels=levels.astype(np.int8).reshape(u.shape), scale=scale)


def _sign(rows: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
    return _compact(_mean(np.abs(rows))), np.where(rows < 0, -1, 1)


def _ternary(rows: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any]]:
    size = np.abs(rows)
    large = size > 0.7 * _mean(size)[:, None]
    return _compact(_mean(size, large)), np.sign(rows) * large


def _uniform(rows: NDArray[np.float32], bits: int) -> tuple[NDArray[Any], NDArray[Any]]:
    top = 2 ** (bits - 1) - 1
    scale = _compact(np.abs(rows).max(axis=1, initial=0) / top)
    step = np.where(scale > 0, scale, 1).astype(np.float32)[:, None]
    return scale, np.clip(np.rint(rows / step), -top, top)


def _mean(size: NDArray[np.float32], where: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    """Mean of each row, over the entries of `where`; 0 for an empty one."""
    count = size.shape[1] if where is None else where.sum(axis=1)
    total = size.sum(axis=1, dtype=np.float64) if where is None else (size * where).sum(axis=1, dtype=np.float64)
    mean: NDArray[np.float32] = (total / np.maximum(count, 1)).astype(np.float32)
    return mean


def _compact(scale: NDArray[np.float32]) -> NDArray[Any]:
    """As float16 if every scale is in its normal range; the residual absorbs the rounding."""
    fits = (scale == 0) | ((scale >= _HALF_MIN) & (scale <= _HALF_MAX))
    return scale.astype(np.float16 if fits.all() else np.float32)


def _check(new: Arrays, base: Arrays, residual: Arrays) -> None:
    if new.keys() != base.keys():
        raise ModelError(f"trained and received model differ in {_first(new.keys() ^ base.keys())}")
    if not residual.keys() <= new.keys():
        raise ModelError(
            f"the residual has {_first(residual.keys() - new.keys())}, the model has not; start without one"
        )
    for name, value in new.items():
        if value.shape != base[name].shape or value.dtype.kind != base[name].dtype.kind:
            raise ModelError(f"{name!r} is {value.dtype} {value.shape}, received {base[name].dtype} {base[name].shape}")
        if name in residual and residual[name].shape != value.shape:
            raise ModelError(f"the residual of {name!r} is {residual[name].shape}, expected {value.shape}")


def _first(names: Iterable[str]) -> str:
    return repr(min(names))
