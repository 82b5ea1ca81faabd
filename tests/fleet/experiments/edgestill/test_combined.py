"""The combined experiment: its cells, its fleets, and a small one of them on digits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edge_agent.training.params import LocalTraining
from fleet.experiments.base import Results, Setting
from fleet.experiments.edgestill.combined import ATTACK, EXPERIMENT, PROTOTYPES, WAYS, measure, scene

RUNS = EXPERIMENT.runs("paper")


def made_up() -> Results:
    """90 % without attackers, 89 % with, FedAvg and FedDF at 10 %; 1-bit updates are a tenth of the others."""

    def level(run: str) -> float:
        return 10.0 if run.startswith("Fed") else 90.0 if run.endswith("without attackers") else 89.0

    sent = {"cnn:fp32": 100_000, "mlp:fp32": 200_000, "cnn:w1": 10_000}
    return {run: {"accuracy": {p: [0.0] + [level(run)] * 3 for p in PROTOTYPES}, "bytes_up": sent} for run in RUNS}


@pytest.mark.parametrize("way", WAYS)
def test_the_published_page_weighs_by_all_examples(way: str) -> None:
    assert scene(way, ATTACK).fusion["max_examples_ratio"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_the_published_page_distills_and_compares_at_full_precision(way: str) -> None:
    fusion = scene(way, ATTACK).fusion
    assert (fusion["student"], fusion["check_at"]) == ("float", "float")


def test_every_cell_can_be_measured_chosen_and_drawn() -> None:
    cells, results = EXPERIMENT.cells("paper"), made_up()
    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names)
    assert not any("," in name for name in names)
    assert {run for cell in cells for run in cell.runs} == set(RUNS)
    by_name = {cell.name: cell for cell in cells}
    assert by_name["mlp:fp32 lost by edgestill"].ours.value(results) == pytest.approx(1.0)
    assert by_name["uplink of edgestill cnn:w1"].ours.value(results) == pytest.approx(10.0)
    for cell in cells:
        if cell.target is not None:
            bound = cell.target.bound
            assert cell.target.met(
                cell.ours.value(results), bound if isinstance(bound, float) else bound.value(results)
            )
    assert EXPERIMENT.draw is not None
    assert len(EXPERIMENT.draw({("paper", 0): results}).axes) == 3


def test_attackers_sit_in_every_prototype_and_recipes_differ_in_fusion_alone() -> None:
    fleets = [measure.keywords["config"] for measure in RUNS.values() if isinstance(measure, partial)]
    assert len(fleets) == len(RUNS) == 6
    assert len({(c.training, c.devices, c.alpha, c.rounds, c.validation_size) for c in fleets}) == 1
    for seed in range(3):
        attackers = replace(scene("FedAvg", ATTACK), seed=seed).attackers
        assert {number % 3 for number in attackers} == {0, 1, 2}
        assert len(attackers) == 10


def test_a_run_tells_accuracies_weights_of_attackers_and_bytes(tmp_path: Path) -> None:
    config = replace(
        scene("edgestill", "faulty@0+5"),
        dataset="digits",
        devices=8,
        prototypes=("mlp:fp32", "mlp:w1"),
        training=LocalTraining(lr=0.1, batch_size=16, steps=5),
        options={},
        rounds=1,
        fusion={"steps": 2, "batch_size": 8, "generator_steps": 2, "generator_hidden": 8},
    )
    setting = Setting(fidelity="paper", seed=0, folder=tmp_path / "files")
    facts = measure(setting, config=config, sizes=(600, 100, 60))
    assert {name: len(curve) for name, curve in facts["accuracy"].items()} == {"mlp:fp32": 1, "mlp:w1": 1}
    assert facts["harm"] == [0.0]  # noise of deviation 20 is never the median
    assert facts["honest_out"][0] < 6
    assert facts["bytes_up"]["mlp:w1"] < facts["bytes_up"]["mlp:fp32"] / 4
    with np.load(tmp_path / "files" / "unlabeled.npz") as kept:
        assert (kept.files, len(kept["x"])) == (["x"], 60)


def test_without_samples_means_without() -> None:
    from aggregator.recipes.catalogue import find_recipe

    recipe, fusion = WAYS["edgestill without samples"]
    assert not find_recipe(recipe, fusion).uses_source
    assert find_recipe(recipe, fusion).generation is not None
