"""Arguments as settings."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import ConfigError
from edgestill.api.settings import configured
from edgestill.api.simulate import simulate
from fleet.simulation.config import SimulationConfig
from fleet.simulation.settings.configure import configure
from fleet.simulation.settings.table import SETTINGS


def test_defaults_are_those_of_the_command_line() -> None:
    assert configured({}, "simulate()") == configure({})


def test_values_may_be_lists_paths_and_numpy_numbers(tmp_path: Path) -> None:
    config = configured(
        {"prototypes": ["cnn:fp32", "mlp:w1"], "rounds": np.int64(3), "alpha": np.float64(0.5), "fusion": {"steps": 7}},
        "simulate()",
    )
    assert isinstance(config, SimulationConfig)
    assert (config.prototypes, config.rounds, config.alpha) == (("cnn:fp32", "mlp:w1"), 3, 0.5)
    assert config.fusion == {"steps": 7}


def test_arguments_override_the_environment_and_that_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[simulate]\nrounds = 3\nseed = 4\nalpha = 0.3\n")
    monkeypatch.setenv("EDGESTILL_SIMULATE_SEED", "5")
    monkeypatch.setenv("EDGESTILL_SIMULATE_ALPHA", "0.4")
    config = configured({"alpha": 0.5}, "simulate()", file)
    assert (config.rounds, config.seed, config.alpha) == (3, 5, 0.5)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"round": 3}, r"simulate\(\): unknown argument 'round'; did you mean 'rounds'\?"),
        ({"clients": 3}, "did you mean 'devices'"),
        ({"rounds": "x"}, r"simulate\(\): rounds is 'x', expected a whole number"),
        ({"rounds": 0}, r"simulate\(\): rounds"),
        ({"fraction": 2.0}, r"^simulate\(\): fraction 2; give a number above 0"),
        ({"recipe": "fedagv"}, r"simulate\(\): recipe: unknown recipe 'fedagv'; did you mean 'fedavg'"),
        ({"fusion": 3}, r"simulate\(\): fusion is 3, expected a dict"),
        ({"fusion": {"stepz": 3}}, "no key 'stepz'; did you mean 'steps'"),
        ({"local_epochs": 1, "local_steps": 2}, "give either"),
        ({"deadline": 3.0}, "requires --virtual-clock"),
    ],
)
def test_mistakes_are_one_line_that_names_the_argument(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        configured(given, "simulate()")
    assert "\n" not in str(caught.value)


def test_help_lists_every_setting_with_its_default() -> None:
    parameters = inspect.signature(simulate).parameters
    assert set(SETTINGS) < set(parameters)
    assert parameters["rounds"].default == SETTINGS["rounds"].default
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values())
