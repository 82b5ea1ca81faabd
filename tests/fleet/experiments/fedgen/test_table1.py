"""FedGen's table 1: its targets, and which scores they hold."""

from __future__ import annotations

import pytest

from fleet.experiments.fedgen.table1 import EXPERIMENT, PUBLISHED
from fleet.experiments.registry import find_experiment
from tests.fleet.experiments.fedgen.made_up import made_up


def test_the_tables_ask_for_the_gain_over_fedavg_of_the_same_run() -> None:
    results = made_up("fedgen-table1", "reference")
    cells = {cell.name: cell for cell in find_experiment("fedgen-table1").cells("reference")}
    gain = cells["alpha 0.1: FedGen - FedAvg"]
    assert gain.ours.value(results) == pytest.approx(10.0)
    assert gain.target is not None
    assert gain.target.met(3.0, 3.0)
    assert not gain.target.met(2.9, 3.0)
    assert cells["FedEnsemble alpha 0.1"].ours.value(results) == 85.0
    best = cells["FedGen alpha 0.1"]
    assert best.target is not None
    assert (best.paper, best.target.bound, best.ours.value(results)) == (93.03, 93.03, 91.0)


def test_only_the_authors_own_form_is_held_against_the_published_numbers() -> None:
    cells = {fidelity: EXPERIMENT.cells(fidelity) for fidelity in EXPERIMENT.fidelities}
    assert sorted(c.paper for c in cells["reference"] if c.paper is not None) == sorted(PUBLISHED.values())
    assert not any(cell.paper for cell in cells["paper"])
    gains = [c.target for c in cells["paper"] if c.name.endswith("FedGen - FedAvg") and c.target is not None]
    assert [(gain.sign, gain.bound) for gain in gains] == [(">", 0.0)] * 3
    assert [c.target.bound for c in cells["reference"] if "FedGen - FedAvg" in c.name and c.target] == [2.0, 3.0, 1.0]


def test_fedensemble_is_scored_in_the_run_of_fedavg_and_in_no_other() -> None:
    runs = EXPERIMENT.runs("reference")
    assert not any("FedEnsemble" in name for name in runs)
    asked = {name for name, measure in runs.items() if measure.keywords["ensemble"]}  # type: ignore[attr-defined]
    assert asked == {"FedAvg alpha 0.05", "FedAvg alpha 0.1", "FedAvg alpha 1"}
    cells = {cell.name: cell for cell in EXPERIMENT.cells("reference")}
    assert cells["FedEnsemble alpha 1"].runs == ("FedAvg alpha 1",)
