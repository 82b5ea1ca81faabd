"""FedGen's scores, worked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from fleet.experiments.fedgen.authors import hooks_of, open_fleet
from fleet.experiments.fedgen.scores import ensemble_score, own_score, slice_score, slices_of, user_state, whole_score
from fleet.simulation.received import Sent
from fleet.simulation.simulation import Simulation
from tests.fleet.experiments.fedgen.small import digits, plan, ran


def always(fleet: Simulation, label: int) -> None:
    """Make the global model one that answers `label` to everything."""
    state = fleet.groups[0].state
    fleet.groups[0].state = {
        name: w if name.endswith("running_var") else torch.zeros_like(w) for name, w in state.items()
    }
    fleet.groups[0].state["predictor.bias"][label] = 1.0


def test_users_are_tested_on_labels_that_they_train_on() -> None:
    of = plan()
    fleet = open_fleet(of, digits(), hooks_of(of))
    slices = slices_of(fleet)
    for device, rows in zip(fleet.devices, slices, strict=True):
        assert set(fleet.test_y[rows].tolist()) <= set(device.y.tolist())
    assert sum(map(len, slices)) == len(torch.cat(slices).unique())


def test_a_model_that_always_answers_3() -> None:
    of = plan()
    fleet = open_fleet(of, digits(), hooks_of(of))
    slices = slices_of(fleet)
    always(fleet, 3)
    threes, rows = fleet.test_y == 3, torch.cat(slices)
    of_slices = 100 * float(threes[rows].double().mean())
    assert whole_score(fleet) == pytest.approx(100 * float(threes.double().mean()))
    assert slice_score(fleet, slices) == pytest.approx(of_slices)
    assert own_score(fleet) == pytest.approx(100 * float(threes[::5].double().mean()))
    assert ensemble_score(fleet, [], slices) == pytest.approx(of_slices)


def test_own_models_are_scored_where_devices_keep_them() -> None:
    fleet = ran(plan("local"))
    before = own_score(fleet), slice_score(fleet, slices_of(fleet))
    always(fleet, 3)  # nobody who was asked reads the global model
    asked = {device.id for n in (1, 2) for device in fleet.invited(fleet.groups[0], n)}
    assert (own_score(fleet) == before[0]) == (len(asked) == 4)
    for device in fleet.devices:
        assert bool(user_state(fleet, device)["predictor.weight"].any()) == (device.id in asked)


def test_the_ensemble_has_the_models_just_trained_and_those_that_were_sent_before() -> None:
    """By logits summed here, one model after another, before the round is fused."""
    of = plan()
    seen: list[tuple[float, float]] = []

    def look(fleet: Simulation, number: int, sent: Sequence[Sent]) -> None:
        rows = torch.cat(slices)
        trained = {one.device.id: one.trained.state() for one in sent if one.trained is not None}
        assert len(trained) == 2
        total = torch.zeros(len(rows), 10)
        for device in fleet.devices:
            model = fleet.groups[0].model
            state = {**user_state(fleet, device), **trained.get(device.id, {})}
            model.load_state_dict(state, strict=False)
            with torch.no_grad():
                total += model.eval()(fleet.test_x[rows])
        right = 100 * float((total.argmax(1) == fleet.test_y[rows]).double().mean())
        seen.append((ensemble_score(fleet, sent, slices), right))

    fleet = open_fleet(of, digits(), replace(hooks_of(of), received=look))
    slices = slices_of(fleet)
    fleet.run_round(1)
    assert seen[0][0] == pytest.approx(seen[0][1], abs=1.0)  # of a few hundred images, one may be on the edge
