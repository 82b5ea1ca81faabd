"""Checks that tensors fit their prototype: names, shapes, dtypes and values. Tensors that pass can be fused. No torch.

Only tensors as sent by honest agents (`quant/pack.py`, `quant/delta.py`) are accepted:

    floats       float16 or float32, or levels (`Packed`) where the prototype quantizes: weights of two dimensions or
                 more, in the bits of its precision; in a delta any float tensor, in any bits
    integers     the published dtype, below 2^31 in magnitude

and within bounds. Weights of trained models are below 100; 10^6 is far beyond any meaningful value, and leaves float32
(up to 3.4 * 10^38) room for the computations of fusion: sums over the fleet, and squares summed over 10^26 of them. A
running variance is a square, and may be 10^12; it is never negative. If the published model itself exceeds half of a
bound, the bound is twice its largest value, so that a fleet can always update its own model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DeviceError
from models.roles import LABEL_LOGITS, slice_state
from quant.precision import parse_precision
from wire.messages import MODEL_STAYS
from wire.tensors import Tensor
from wire.tensors.packed import Packed

__all__ = ["LARGEST", "LARGEST_VARIANCE", "Published", "check_extra", "check_names", "check_values", "describe_model"]

Shapes = Mapping[str, tuple[int, ...]]
LARGEST = 1e6
LARGEST_VARIANCE = LARGEST**2
CEILING = 1e15  # its square, summed over 10^8 weights, is 10^38
LARGEST_INTEGER = 2**31 - 1
VARIANCE, BATCHES = "running_var", "num_batches_tracked"
FLOATS = (np.dtype(np.float16), np.dtype(np.float32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The reference for updates of a published model's prototype."""

    shapes: Shapes  # of all tensors of the prototype
    integers: Mapping[str, np.dtype[Any]] = field(default_factory=dict)  # tensors that are not float
    reach: Mapping[str, float] = field(default_factory=dict)  # the largest magnitude in each


def describe_model(tensors: Mapping[str, Tensor]) -> Published:
    """The reference for updates that start from these tensors."""
    arrays = {name: t.dequantize() if isinstance(t, Packed) else t for name, t in tensors.items()}
    return Published(
        shapes={name: array.shape for name, array in arrays.items()},
        integers={name: array.dtype for name, array in arrays.items() if array.dtype.kind != "f"},
        reach={name: _reach(array) for name, array in arrays.items()},
    )


def check_names(tensors: Mapping[str, Tensor], expected: Shapes, kind: str) -> None:
    """Refuse a tensor that is missing, unexpected or of another shape."""
    if kind == "predictor":
        expected = slice_state(dict(expected), "predictor")
    elif kind in MODEL_STAYS:
        expected = {}
    for name in sorted(expected.keys() ^ tensors.keys()):
        what = "missing" if name in expected else "unexpected"
        raise DeviceError(f"tensor {name!r} is {what}; is it on this prototype?")
    for name, value in tensors.items():
        shape = value.levels.shape if isinstance(value, Packed) else value.shape
        if shape != expected[name]:
            raise DeviceError(f"{name!r} is {shape}, expected {expected[name]}")


def check_values(tensors: Mapping[str, Tensor], published: Published, prototype: str, kind: str) -> None:
    """Refuse a dtype or value that cannot be fused; names and shapes were checked."""
    bits = parse_precision(prototype.partition(":")[2]).weight_bits
    for name, value in tensors.items():
        if name in published.integers:
            _check_integers(name, value, published.integers[name])
            continue
        if isinstance(value, Packed):
            _check_packed(name, value, bits, kind)
        elif value.dtype not in FLOATS:
            raise DeviceError(f"{name!r} is {value.dtype}, expected float16 or float32")
        _check_range(name, value, published.reach.get(name, 0.0), kind)


def check_extra(extra: Mapping[str, Tensor], kind: str, classes: int) -> None:
    """Check tensors that are not part of the model: logits by label."""
    logits = extra.get(LABEL_LOGITS)
    if logits is None:
        if kind == "logits":
            raise DeviceError(f"an update of logits without {LABEL_LOGITS!r}")
        return
    if isinstance(logits, Packed) or logits.dtype not in FLOATS:
        dtype = f"{logits.bits}-bit levels" if isinstance(logits, Packed) else logits.dtype
        raise DeviceError(f"{LABEL_LOGITS!r} is {dtype}, expected float16 or float32")
    if logits.shape != (classes, classes):
        raise DeviceError(f"{LABEL_LOGITS!r} is {logits.shape}, expected {(classes, classes)}")
    _check_range(LABEL_LOGITS, logits, 0.0, kind)


def _check_packed(name: str, value: Packed, bits: int | None, kind: str) -> None:
    if kind == "delta":
        return
    if bits is None or value.levels.ndim < 2:
        raise DeviceError(f"{name!r} is {value.bits}-bit levels, expected float16 or float32")
    if value.bits != bits:
        raise DeviceError(f"{name!r} is {value.bits}-bit levels, the prototype has {bits}")


def _check_integers(name: str, value: Tensor, dtype: np.dtype[Any]) -> None:
    if isinstance(value, Packed) or value.dtype != dtype:
        given = f"{value.bits}-bit levels" if isinstance(value, Packed) else value.dtype
        raise DeviceError(f"{name!r} is {given}, expected {dtype}")
    least = 0 if name.endswith(BATCHES) else -LARGEST_INTEGER
    if value.size and not least <= int(value.min()) <= int(value.max()) <= LARGEST_INTEGER:
        raise DeviceError(f"{name!r} has an integer outside of {least} .. {LARGEST_INTEGER}")


def _check_range(name: str, value: Tensor, reach: float, kind: str) -> None:
    variance = name.endswith(VARIANCE)
    most = min(CEILING, max(LARGEST_VARIANCE if variance else LARGEST, 2 * reach))
    half = not isinstance(value, Packed) and value.dtype == np.float16  # all of them are below 65,505
    found = 0.0 if half else _reach(value)
    if not found <= most:
        raise DeviceError(
            f"{name!r} has a value of {found:.3g}, at most {most:.3g} is accepted; has training diverged?"
        )
    if variance and kind != "delta" and not isinstance(value, Packed) and value.size and value.min() < 0:
        raise DeviceError(f"{name!r} has a negative variance")


def _reach(value: Tensor) -> float:
    """An upper bound of the magnitudes; for levels, the largest that their bits can represent."""
    if isinstance(value, Packed):
        top = max(1, 2 ** (value.bits - 1) - 1)
        scale, mean = value.scale.astype(np.float64), value.mean
        largest = np.abs(scale) * top + (0.0 if mean is None else np.abs(mean.astype(np.float64)))
        return float(largest.max(initial=0.0))
    return _greatest(value)


def _greatest(array: NDArray[Any]) -> float:
    if not array.size:
        return 0.0
    if array.dtype == np.float16:
        array = array.astype(np.float32)  # NumPy compares float16 slowly
    return max(-float(array.min()), float(array.max()))
