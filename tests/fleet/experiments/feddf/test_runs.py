"""A followed fleet, on scikit-learn's digits, and the facts about its curves, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_agent.training.params import LocalTraining
from fleet.data import load
from fleet.experiments.base import FLOAT_STUDENT, UNCAPPED, Setting
from fleet.experiments.feddf.runs import best, first_to, follow, gap, halved, last, rounds_to, subset
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation

RESULTS = {
    "a": {"accuracy": {"p": [10.0, 40.0, 30.0, 50.0, 45.0]}, "ensemble": {"p": [20.0, 50.0, 60.0, 52.0, 48.0]}},
    "b": {"accuracy": {"p": [30.0, 46.0, 51.0, 60.0, 44.0]}},
}
TINY = SimulationConfig(
    dataset="digits",
    devices=2,
    prototypes=("mlp:fp32",),
    training=LocalTraining(lr=0.1, batch_size=16, epochs=1),
    alpha=5.0,
    rounds=2,
    validation_size=50,
)


def setting(folder: Path, said: list[str] | None = None) -> Setting:
    return Setting(fidelity="paper", seed=3, folder=folder, say=(said if said is not None else []).append)


def test_the_accuracy_of_a_run_is_the_mean_of_its_last_three_rounds() -> None:
    fact = last("a", "p")
    assert fact.value(RESULTS) == pytest.approx((30 + 50 + 45) / 3)
    assert last("a", "p", "ensemble").value(RESULTS) == pytest.approx((60 + 52 + 48) / 3)
    assert fact.runs == ("a",)
    assert best("a", "p").value(RESULTS) == 50.0


def test_a_gap_is_taken_round_by_round() -> None:
    # b - a in the last three rounds: 21, 10, -1
    worst = gap(("b", "accuracy"), ("a", "accuracy"), "p", rounds=3, pick=min)
    assert worst.value(RESULTS) == -1.0
    assert worst.runs == ("b", "a")
    # ensemble - a in the last two: 2, 3
    own = gap(("a", "ensemble"), ("a", "accuracy"), "p", rounds=2, pick=max)
    assert (own.value(RESULTS), own.runs) == (3.0, ("a",))


def test_rounds_are_counted_to_the_first_that_comes_to_the_level() -> None:
    level = best("a", "p")  # 50
    assert rounds_to("a", "p", level).value(RESULTS) == 4.0
    assert rounds_to("b", "p", level).value(RESULTS) == 3.0
    assert rounds_to("a", "p", level, times=0.5).value(RESULTS) == 2.0
    assert rounds_to("a", "p", best("b", "p")).value(RESULTS) == 6.0  # none of five
    assert rounds_to("b", "p", level).runs == ("b", "a")
    # means of three: 10, 25, 26.7, 40, 41.7
    assert rounds_to("a", "p", last("a", "p"), over=3).value(RESULTS) == 5.0
    assert first_to([1.0], 1.0) == 1


def test_a_subset_depends_on_the_seed_alone() -> None:
    digits = load("digits")
    some = subset(digits, 100, 40, seed=1)
    assert (len(some.y_train), len(some.y_test)) == (100, 40 if len(digits.y_test) else 0)
    assert np.array_equal(some.y_train, subset(digits, 100, 40, seed=1).y_train)
    assert not np.array_equal(some.y_train, subset(digits, 100, 40, seed=2).y_train)
    assert len(subset(digits, None, None, seed=1).y_train) == len(digits.y_train)


def test_fedavg_and_feddf_are_followed_in_the_same_fleet(tmp_path: Path) -> None:
    said: list[str] = []
    distilled = replace(TINY, recipe="feddf", fusion={"steps": 4, "check_every": 2})
    plain = follow(setting(tmp_path / "a"), TINY, train=500, unlabeled=0.4)
    taught = follow(setting(tmp_path / "b", said), distilled, train=500, unlabeled=0.4)
    assert len(plain["accuracy"]["mlp:fp32"]) == len(taught["ensemble"]["mlp:fp32"]) == 2
    assert plain["ensemble"] == plain["average"] == {}
    # before the first student learns, nothing tells the two apart
    assert taught["average"]["mlp:fp32"][0] == plain["accuracy"]["mlp:fp32"][0]
    assert said[1].startswith("round 2/2, mlp:fp32 ")
    assert taught["screened"] == [0, 0]
    with np.load(tmp_path / "b" / "unlabeled.npz") as kept:
        assert (set(kept.files), len(kept["x"])) == ({"x"}, 200)


def test_the_fleets_of_the_paper_weigh_by_all_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[SimulationConfig] = []
    real = Simulation.__init__

    def init(self: Simulation, config: SimulationConfig, *rest: object) -> None:
        configs.append(config)
        real(self, config, *rest)

    monkeypatch.setattr(Simulation, "__init__", init)
    follow(setting(tmp_path), replace(TINY, rounds=1, fusion={"weigh": "examples"}), train=300)
    papers = {"max_examples_ratio": 0.0, "student": "float", "check_at": "float"}
    assert [config.fusion for config in configs] == [{**papers, "weigh": "examples"}]


def test_what_is_followed_is_the_accuracy_with_full_precision_weights(tmp_path: Path) -> None:
    """As the paper scores its 1-bit devices' average; what a board would run is another number."""
    config = replace(TINY, prototypes=("cnn:w1",), rounds=1, training=replace(TINY.training, epochs=4))
    found = follow(setting(tmp_path), config, train=300, test=200)
    dataset = subset(load(config.dataset), 300, 200, seed=setting(tmp_path).seed)
    config = replace(config, seed=setting(tmp_path).seed, fusion={**UNCAPPED, **FLOAT_STUDENT})
    one = Simulation(config, dataset).run_round(1).prototypes["cnn:w1"]
    assert found["accuracy"]["cnn:w1"] == [round(100 * one.full_precision, 2)]
    assert one.accuracy != one.full_precision, "or this would tell nothing"


def test_the_seed_of_the_setting_counts(tmp_path: Path) -> None:
    first, again = (follow(setting(tmp_path), replace(TINY, rounds=1, seed=seed), train=300) for seed in (0, 9))
    assert first == again


def test_images_are_halved_by_the_means_of_two_by_two() -> None:
    x = np.array([[[[0, 2, 10, 10], [4, 6, 10, 14]]]], dtype=np.uint8)  # one image of 2 x 4
    small = halved(x)
    assert small.dtype == np.uint8
    assert small.tolist() == [[[[3, 11]]]]
