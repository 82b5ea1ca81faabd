"""Text: half of the training set is the aggregator's, and rounds are counted to FedAvg's best."""

from __future__ import annotations

from functools import partial

from fleet.experiments.feddf.text import EXPERIMENT, TASKS
from tests.fleet.experiments.feddf.made_up import cells_of, configs, made_up


def test_the_unlabeled_half_comes_from_the_task_s_own_training_set() -> None:
    for run, measure in EXPERIMENT.runs("paper").items():
        assert isinstance(measure, partial)
        assert measure.keywords["unlabeled"] == 0.5
        assert measure.keywords["train"] == TASKS[run.partition(" ")[2]].train


def test_each_task_has_a_learning_rate_of_its_own_for_both_recipes() -> None:
    fleets = configs("feddf-text")
    assert {run: config.training.lr for run, config in fleets.items()} == {
        "fedavg ag_news": 1.0,
        "feddf ag_news": 1.0,
        "fedavg sst2": 0.2,
        "feddf sst2": 0.2,
    }


def test_rounds_are_counted_to_the_best_of_fedavg_and_must_be_fewer() -> None:
    results, cells = made_up("feddf-text"), cells_of("feddf-text")
    sooner = cells["AG News: rounds of FedDF to FedAvg's best"]
    assert sooner.ours.value(results) == 1.0
    assert sooner.target is not None
    assert not isinstance(sooner.target.bound, float)
    assert sooner.target.bound.value(results) == 10.0
    assert not sooner.target.met(10.0, 10.0)
