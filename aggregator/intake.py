"""What the aggregator does with an update before it is fused: does it fit the prototype, and as which tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from quant.pack import unpack
from wire.errors import DeviceError
from wire.tensors import Packed, Tensor

__all__ = ["read_state"]


def read_state(
    device: str, tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]
) -> dict[str, torch.Tensor]:
    """The float32 state of a `state` update; `DeviceError` names the tensor that does not fit `expected` (name: shape).

    Finiteness was checked when the message was decoded.
    """
    for name in sorted(expected.keys() ^ tensors.keys()):
        what = "missing" if name in expected else "unexpected"
        raise DeviceError(f"update from {device!r}: tensor {name!r} is {what}; is it on this prototype?")
    for name, value in tensors.items():
        shape = value.levels.shape if isinstance(value, Packed) else value.shape
        if shape != expected[name]:
            raise DeviceError(f"update from {device!r}: {name!r} is {shape}, expected {expected[name]}")
    return unpack(tensors)
