"""The model that a device has after its training in a round, at its own precision, as the aggregator would see it.

    state, delta, onnx     the update itself: it was snapped to what the wire carries before it was packed
    predictor              the predictor that it sent over the extractor that it has kept
    logits, none           the whole model that it has kept
    personal = true        the personal model, whatever is sent (edge_agent/objectives/personal.py)

Latent weights that stay on the device pass through the prototype's quantizers here, once; what was received has passed.
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
    """Whether all of the device's own model is at hand: where it keeps a part, that part too.

    Of a light device in a fleet that sends whole models only the predictor is: its extractor is a graph of its own.
    """
    return EXTRACTOR in device.kept if update in KEEPING else not sent.predictor_only


def own_model(device: SimulatedDevice, model: Prototype, sent: Received, update: str) -> Mapping[str, Tensor]:
    """The state of the device's model, weights at the values that they stand for; `model` is one of its prototype."""
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
    """What `state`, whose weights are latent, computes with; `model` holds it afterwards."""
    load_packed(model, pack_state(state, floats="fp32"))
    return unpack(pack(model, floats="fp32"))
