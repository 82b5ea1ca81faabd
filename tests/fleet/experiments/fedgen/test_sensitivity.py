"""FedGen with other settings."""

from __future__ import annotations

from aggregator.recipes.catalogue import find_recipe
from fleet.experiments.base import Fact
from fleet.experiments.fedgen.sensitivity import DEFAULT, EXPERIMENT, VARIANTS
from tests.fleet.experiments.fedgen.made_up import plans


def test_the_sensitivity_changes_one_thing_of_table_1_at_a_time() -> None:
    runs = plans("fedgen-sensitivity", "reference")
    assert runs["active 4"].config.fraction == 0.2
    assert runs["active 20"].config.fraction == 1.0
    assert runs["generated batch 8"].config.fusion["generated_batch"] == 8
    assert (runs["counts epsilon 0.1"].config.count_epsilon, runs["counts epsilon 0.1"].round_counts) == (0.1, False)
    assert runs["counts in bins of 50"].config.count_bins == 50
    assert {plan.config.rounds for plan in runs.values()} == {100}


def test_a_row_is_held_against_fedavg_with_as_many_users() -> None:
    cells = {cell.name: cell for cell in EXPERIMENT.cells("reference")}
    bounds = {name: cell.target.bound for name, cell in cells.items() if cell.target is not None}
    assert bounds.keys() == {name for panel in VARIANTS.values() for name in panel}
    for name, bound in bounds.items():
        assert isinstance(bound, Fact)
        assert bound.runs == ((f"FedAvg {name}",) if name.startswith("active") else ("FedAvg",))


def test_the_authors_size_is_among_the_rows_and_is_what_the_recipe_has() -> None:
    size = plans("fedgen-sensitivity", "reference")[DEFAULT].config.fusion
    usual = {name: value for name, value in size.items() if not name.startswith("generator_")}
    assert size.keys() - usual.keys() == {"generator_noise_width", "generator_hidden"}
    assert find_recipe("fedgen", size) == find_recipe("fedgen", usual)
    assert [cell.name for cell in EXPERIMENT.cells("reference") if cell.note == "the authors' size"] == [DEFAULT]
