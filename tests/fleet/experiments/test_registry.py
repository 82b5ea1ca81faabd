"""Experiments are found by looking."""

import subprocess
import sys

import pytest

from core.errors import ConfigError
from fleet.experiments.base import Experiment
from fleet.experiments.registry import find_experiment, names


def test_the_framework_itself_is_no_experiment_and_every_module_with_one_is() -> None:
    found = names()
    assert "feddf-toy" in found
    assert not {"base", "registry", "runner", "report", "worker", "store", "page", "figures"} & set(found)
    assert all(title.strip() for title in found.values()), "a first line that says what it measures"


def test_a_user_s_package_adds_one(toy: str) -> None:
    assert names()[toy] == "toyexperiment:EXPERIMENT"
    assert find_experiment(toy).title == "Toy"


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'feddf-toy'"):
        find_experiment("fedf-toy")


def test_listing_needs_no_torch() -> None:
    code = "import sys; from fleet.experiments.registry import names; names(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", list(names()))
def test_every_cell_of_every_experiment_is_made_of_runs_that_there_are(name: str) -> None:
    experiment = find_experiment(name)
    assert isinstance(experiment, Experiment)
    assert experiment.about.strip()
    for fidelity in experiment.fidelities:
        runs = experiment.runs(fidelity)
        cells = experiment.cells(fidelity)
        assert cells
        assert len({cell.name for cell in cells}) == len(cells), "names tell cells apart"
        for cell in cells:
            assert set(cell.runs) <= set(runs), f"{name}: {cell.name}"
            assert "," not in cell.name
