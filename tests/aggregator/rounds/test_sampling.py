"""Whom a round asks."""

import numpy as np
import pytest

from aggregator.rounds.sampling import draw, sample, share_of
from core.seeds import derive_seed

pytestmark = pytest.mark.light
DEVICES = {f"d{i}": ("cnn:fp32" if i < 6 else "mlp:fp32") for i in range(10)}


def test_the_whole_fleet_is_asked_in_the_order_of_its_ids() -> None:
    assert list(sample(DEVICES, 0, 1)) == sorted(DEVICES)


def test_a_fraction_is_taken_of_each_prototype_but_at_least_one() -> None:
    chosen = sample(DEVICES, 0, 1, fraction=0.5)
    assert sorted(chosen.values()) == ["cnn:fp32"] * 3 + ["mlp:fp32"] * 2
    assert sorted(sample(DEVICES, 0, 1, fraction=0.01).values()) == ["cnn:fp32", "mlp:fp32"]


def test_seed_and_round_decide_and_the_order_of_the_devices_does_not() -> None:
    backwards = dict(reversed(DEVICES.items()))
    assert sample(DEVICES, 0, 1, fraction=0.5) == sample(backwards, 0, 1, fraction=0.5)
    assert len({tuple(sample(DEVICES, 0, n, fraction=0.5)) for n in range(1, 9)}) > 1
    assert len({tuple(sample(DEVICES, s, 1, fraction=0.5)) for s in range(8)}) > 1


def test_it_is_the_draw_of_the_simulated_fleet() -> None:
    members = [d for d in DEVICES if DEVICES[d] == "cnn:fp32"]
    drawn = np.random.default_rng(derive_seed(5, "invite", 2, "cnn:fp32")).choice(6, 3, replace=False)
    chosen = sample(DEVICES, 5, 2, fraction=0.5)
    assert [d for d in chosen if chosen[d] == "cnn:fp32"] == sorted(members[i] for i in drawn)


def test_the_draws_of_released_runs_stay_as_they_were() -> None:
    assert list(sample(DEVICES, 5, 2, fraction=0.5)) == ["d0", "d2", "d4", "d6", "d7"]
    assert draw(range(20), 10, 1, "invite", 1) == [0, 1, 2, 3, 5, 6, 7, 10, 12, 19]


def test_a_draw_keeps_the_order_of_its_members() -> None:
    letters = list("zyxw")
    assert draw(letters, 4, 0, "any") == letters
    assert share_of(10, 0.25) == 2  # half to even, as Python rounds
    assert share_of(3, 1.0) == 3


def test_others_are_added_until_enough_are_asked() -> None:
    few, more = sample(DEVICES, 0, 1, fraction=0.1), sample(DEVICES, 0, 1, fraction=0.1, at_least=5)
    assert len(few) == 2
    assert len(more) == 5
    assert few.items() <= more.items()
    assert more == sample(DEVICES, 0, 1, fraction=0.1, at_least=5)
    assert len(sample(DEVICES, 0, 1, at_least=50)) == 10
