"""FedGen's table 4: what is shared, and what it is held against."""

from __future__ import annotations

from fleet.experiments.fedgen.table4 import EXPERIMENT, PUBLISHED
from tests.fleet.experiments.fedgen.made_up import plans


def test_in_table_4_extractors_stay_or_nothing_is_shared() -> None:
    runs = plans("fedgen-table4", "reference")
    assert {(plan.config.recipe, plan.config.update) for plan in runs.values()} == {
        ("fedgen", "predictor"),
        ("fedavg", "predictor"),
        ("local", "state"),
    }
    assert all(plan.config.keeps_models and plan.every == 1 for plan in runs.values())


def test_fedgen_is_held_against_the_paper_and_above_both_others() -> None:
    cells = {cell.name: cell for cell in EXPERIMENT.cells("reference")}
    for alpha, published in PUBLISHED["FedGen"].items():
        own = cells[f"FedGen alpha {alpha:g}"]
        assert own.target is not None
        assert (own.paper, own.target.bound) == (published, published)
        assert cells[f"alone alpha {alpha:g}"].paper is None
        for other in ("FedAvg", "alone"):
            gain = cells[f"alpha {alpha:g}: FedGen - {other}"]
            assert gain.runs == (f"FedGen alpha {alpha:g}", f"{other} alpha {alpha:g}")
            assert gain.target is not None
            least = (alpha, other) == (0.1, "FedAvg")
            assert (gain.target.sign, gain.target.bound) == ((">=", 3.0) if least else (">", 0.0))
