"""The scores of FedGen's authors (Zhu et al. 2021), and ours; all in percent.

    slices     every user's model, which is the global one with the user's own BatchNorm statistics, on the user's own
               slice of the test set, with only labels that it has trained on; predictions of all users pooled
    whole      the global model on the whole test set; if devices keep local models, the mean over these
    ensemble   argmax of the sum of all users' logits, on all slices together, after training and before fusion

The authors' tables report the mean of the five best rounds of a run; ours is the mean of the last ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from aggregator.evaluate import evaluate
from edge_agent.state.store import EXTRACTOR
from fleet.partition.fedgen import fedgen_test
from fleet.simulation.device import STAYS, SimulatedDevice
from fleet.simulation.received import Sent
from fleet.simulation.simulation import Simulation
from models.split import Prototype
from quant.pack import load_packed, pack_state, unpack
from wire.tensors import decode

__all__ = ["ensemble_score", "own_score", "slice_score", "slices_of", "whole_score"]

THINNED = 5  # every fifth test image, if twenty models are scored
State = Mapping[str, Tensor]


def slices_of(simulation: Simulation) -> list[Tensor]:
    """Rows of the test set by user."""
    devices, test_y = simulation.devices, simulation.test_y.numpy()
    rows = fedgen_test([device.rows for device in devices], devices[0].dataset.y_train, test_y)
    return [torch.from_numpy(of_user) for of_user in rows]


def user_state(simulation: Simulation, device: SimulatedDevice) -> dict[str, Tensor]:
    """The state dict of a user after a broadcast: the global model, overridden by the tensors that the user keeps."""
    kept = [unpack(decode(device.kept[name])) for name in (EXTRACTOR, STAYS) if name in device.kept]
    state = dict(simulation.groups[0].state)
    for own in kept:
        state |= own
    return state


def slice_score(simulation: Simulation, slices: Sequence[Tensor]) -> float:
    """The authors' score."""
    right = 0
    for device, rows in zip(simulation.devices, slices, strict=True):
        if len(rows):
            model = _holding(simulation, user_state(simulation, device))
            right += sum(evaluate(model, simulation.test_x[rows], simulation.test_y[rows]).correct)
    return 100 * right / sum(map(len, slices))


def whole_score(simulation: Simulation) -> float:
    """Accuracy of the global model on the whole test set."""
    model = _holding(simulation, simulation.groups[0].state)
    return 100 * evaluate(model, simulation.test_x, simulation.test_y).accuracy


def own_score(simulation: Simulation) -> float:
    """Mean over the users' models, on every fifth image."""
    x, y = simulation.test_x[::THINNED], simulation.test_y[::THINNED]
    models = (_holding(simulation, user_state(simulation, device)) for device in simulation.devices)
    return fmean(100 * evaluate(model, x, y).accuracy for model in models)


@torch.inference_mode()
def ensemble_score(simulation: Simulation, sent: Sequence[Sent], slices: Sequence[Tensor]) -> float:
    """Accuracy of the ensemble before fusion: models trained in this round, and the other users' last models."""
    trained = {one.device.id: one.trained.state() for one in sent if one.trained is not None}
    rows = torch.cat(list(slices))
    x, total = simulation.test_x[rows], torch.zeros(())
    for device in simulation.devices:
        model = _holding(simulation, {**user_state(simulation, device), **trained.get(device.id, {})}).eval()
        total = total + torch.cat([model(part) for part in x.split(512)])
    return 100 * float((total.argmax(1) == simulation.test_y[rows]).double().mean())


def _holding(simulation: Simulation, state: State) -> Prototype:
    """The prototype's module with the weights of `state`."""
    model = simulation.groups[0].model
    load_packed(model, pack_state(state, floats="fp32"))
    return model
