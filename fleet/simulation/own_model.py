"""A device's own model after its training in a round, at its own precision.

    state, delta, onnx     the update itself, rounded to its wire dtype before it was packed
    predictor              the predictor of the update on top of the extractor that the device keeps
    logits, none           the whole model, which the device keeps
    personal = true        the personal model, for every kind of update (edge_agent/objectives/personal.py)

Latent weights that stay on the device are quantized here, once; received weights are quantized already.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from aggregator.fusion.types import Received
from edge_agent.state.store import EXTRACTOR, KEEPING, PERSONAL
from fleet.simulation.device import SimulatedDevice
from models.roles import slice_state
from models.split import Prototype
from quant.pack import load_packed, pack, pack_state, unpack
from wire.tensors import decode

__all__ = ["at_its_precision", "has_model", "own_model"]


def has_model(device: SimulatedDevice, sent: Received, update: str) -> bool:
    """Whether the device's whole model is available, including the part that it keeps.

    A light device in a fleet that sends whole models provides only its predictor: its extractor is an ONNX graph.
    """
    return EXTRACTOR in device.kept if update in KEEPING else not sent.predictor_only


def own_model(device: SimulatedDevice, model: Prototype, sent: Received, update: str) -> Mapping[str, Tensor]:
    """The state dict of the device's model with dequantized weights; `model` is an instance of its prototype."""
    if PERSONAL in device.kept:
        return at_its_precision(model, unpack(decode(device.kept[PERSONAL])))
    if update not in KEEPING:
        return sent.state()
    kept = unpack(decode(device.kept[EXTRACTOR]))
    if update != "predictor":
        return at_its_precision(model, kept)
    whole = at_its_precision(model, {**kept, **sent.state()})
    return {**slice_state(whole, "extractor"), **sent.state()}


def at_its_precision(model: Prototype, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The quantized weights of a state dict with latent weights, which is loaded into `model`."""
    load_packed(model, pack_state(state, floats="fp32"))
    return unpack(pack(model, floats="fp32"))
