"""What FedGen's authors do otherwise, as hooks: streams of batches, learning rates, statistics, label counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleet.experiments.fedgen.authors import (
    authors_lr,
    authors_partition,
    batches_of,
    hooks_of,
    open_fleet,
    round_counts,
    rows_of,
    turns_before,
)
from fleet.experiments.fedgen.scores import user_state
from fleet.simulation.simulation import Simulation
from models.latents import LABELS
from tests.fleet.experiments.fedgen.small import digits, plan, ran

ROUNDS = 12


@pytest.fixture(scope="module")
def fleet() -> Simulation:
    of = plan(rounds=ROUNDS)
    return open_fleet(of, digits(), hooks_of(of))


def test_turns_are_those_in_which_the_simulation_invites(fleet: Simulation) -> None:
    group = fleet.groups[0]
    asked = [{device.id for device in fleet.invited(group, n)} for n in range(1, ROUNDS)]
    for device in fleet.devices:
        assert turns_before(device, ROUNDS) == [n for n, ids in enumerate(asked, 1) if device.id in ids]
        assert turns_before(device, 1) == []


def test_batches_are_full_and_go_on_over_rounds(fleet: Simulation) -> None:
    """Of a user with fewer samples than a round takes, whole epochs follow one another."""
    device = replace(fleet.devices[0], rows=fleet.devices[0].rows[:5])
    turns = [*turns_before(device, ROUNDS)][:3]
    assert len(turns) == 3
    taken = np.concatenate([rows_of(device, n).ravel() for n in turns])
    assert rows_of(device, turns[0]).shape == (2, 8)
    assert [sorted(taken[at : at + 5].tolist()) for at in range(0, 45, 5)] == [[0, 1, 2, 3, 4]] * 9
    assert len({tuple(taken[at : at + 5]) for at in range(0, 45, 5)}) > 1


def test_label_counts_are_those_of_the_rounds_batches(fleet: Simulation) -> None:
    device = fleet.devices[1]
    drawn = torch.cat([device.y[batch] for batch in batches_of(device, 3)])
    assert list(round_counts(device, 3)) == [int((drawn == label).sum()) for label in range(10)]
    assert sum(round_counts(device, 3)) == 16
    assert hooks_of(plan(round_counts=False)).label_counts is None


def test_the_learning_rate_is_that_of_the_last_round_in_which_a_user_was_asked(fleet: Simulation) -> None:
    device = fleet.devices[0]
    first, second = turns_before(device, ROUNDS)[:2]
    assert authors_lr(device, first) == 0.01
    assert authors_lr(device, second) == authors_lr(device, first + 1) == pytest.approx(0.01 * 0.99 ** (first - 1))
    assert authors_lr(device, second + 1) == pytest.approx(0.01 * 0.99 ** (second - 1))


def test_the_partition_is_the_same_for_all_seeds(fleet: Simulation) -> None:
    of = plan()
    for seed in (0, 1):
        config = replace(of.config, seed=seed)
        other = open_fleet(replace(of, config=config), digits(), hooks_of(of))
        parts = authors_partition(config, digits())
        assert all(
            np.array_equal(a.rows, b.rows) and np.array_equal(a.rows, part)
            for a, b, part in zip(other.devices, fleet.devices, parts, strict=True)
        )


def test_everybody_gets_the_global_model_but_keeps_its_own_statistics() -> None:
    mean, weight = (f"extractor.body.{name}" for name in ("norm1.running_mean", "fc.weight"))
    fleet = ran(plan(), rounds=1)
    states = [user_state(fleet, device) for device in fleet.devices]
    assert len(torch.stack([state[weight] for state in states]).unique(dim=0)) == 1
    asked = [device in fleet.invited(fleet.groups[0], 1) for device in fleet.devices]
    assert [bool(state[mean].any()) for state in states] == asked
    averaged = ran(plan(fidelity="paper"), rounds=1)
    states = [user_state(averaged, device) for device in averaged.devices]
    assert all(torch.equal(state[mean], averaged.groups[0].state[mean]) for state in states)


def test_with_predictors_alone_extractors_stay() -> None:
    fleet = ran(plan("fedgen", update="predictor"))
    states = [user_state(fleet, device) for device in fleet.devices]
    assert len(torch.stack([state["extractor.body.fc.weight"] for state in states]).unique(dim=0)) > 1
    assert len(torch.stack([state["predictor.weight"] for state in states]).unique(dim=0)) == 1


def test_alone_nothing_is_shared() -> None:
    fleet = ran(plan("local"))
    states = [user_state(fleet, device) for device in fleet.devices]
    asked = {device.id for n in (1, 2) for device in fleet.invited(fleet.groups[0], n)}
    assert len(torch.stack([state["predictor.weight"] for state in states]).unique(dim=0)) >= len(asked)


def test_users_of_the_authors_draw_all_labels_alike() -> None:
    fleet = ran(plan("fedgen"), rounds=1)
    assert fleet.side_artifact is not None
    told = fleet.side_artifact.body.tensors[LABELS]
    assert np.allclose(told, 0.1, atol=1e-3)
    printed = ran(plan("fedgen", "paper"), rounds=1)
    assert printed.side_artifact is not None
    assert not np.allclose(printed.side_artifact.body.tensors[LABELS], 0.1, atol=1e-3)


@pytest.mark.parametrize("recipe", ["fedprox", "feddistill", "feddistill+", "fedgen"])
def test_every_recipe_changes_what_fedavg_would_have_made(recipe: str) -> None:
    plain, other = ran(plan()), ran(plan(recipe))
    asked = plain.invited(plain.groups[0], 2)[0].number
    weights = [user_state(fleet, fleet.devices[asked])["predictor.weight"] for fleet in (plain, other)]
    assert not torch.allclose(*weights, atol=1e-6)
