"""What the simulated aggregator withholds: labelled samples that have a say, unlabeled samples, nothing twice."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from aggregator.recipes.catalogue import find_recipe
from core.errors import ConfigError
from fleet.data import Dataset
from fleet.simulation.config import SimulationConfig
from fleet.simulation.inputs.server_side import server_side
from tests.fleet.simulation.test_simulation import CONFIG

TEST = (torch.zeros(1, 4), torch.zeros(1, dtype=torch.int64))


def numbered() -> Dataset:
    """Sample i holds the number i."""
    x = np.repeat(np.arange(120, dtype=np.float32)[:, None], 4, axis=1)
    y = (np.arange(120) % 3).astype(np.int64)
    names = ("a", "b", "c")
    return Dataset(name="n", kind="features", x_train=x, y_train=y, x_test=x[:1], y_test=y[:1], class_names=names)


def sides(**changes: object) -> tuple[set[float], set[float], set[float]]:
    """The samples that validate, that teach, and that devices have."""
    config: SimulationConfig = replace(CONFIG, **{"compute": "cpu", **changes})
    server, left = server_side(config, find_recipe(config.recipe, config.fusion), numbered(), TEST)
    validation = set() if server.validation is None else set(server.validation[0][:, 0].tolist())
    source = set() if server.source is None else set(server.source[:, 0].tolist())
    return validation, source, set(left.x_train[:, 0].tolist())


def test_a_recipe_that_only_averages_leaves_all_to_the_devices() -> None:
    assert sides(recipe="fedavg") == (set(), set(), set(range(120)))


def test_a_tenth_validates_a_sixth_teaches_and_devices_have_the_rest() -> None:
    validation, source, devices = sides(recipe="feddf")
    assert len(validation) == 12
    assert 8 < len(source) < 30  # each sample with probability 1/6
    assert validation | source | devices == set(range(120))
    assert len(validation) + len(source) + len(devices) == 120
    assert sides(recipe="feddf") == (validation, source, devices)
    assert sides(recipe="feddf", seed=1) != (validation, source, devices)


def test_a_recipe_that_can_do_without_samples_takes_what_it_is_given() -> None:
    assert sides(recipe="edgestill", source="none") == (set(), set(), set(range(120)))
    validation, source, _ = sides(recipe="edgestill")
    assert (len(validation), len(source) > 8) == (12, True)


def test_recipes_that_do_not_look_withhold_no_labelled_samples() -> None:
    validation, source, _ = sides(recipe="fedrad", fusion={"swa": -1, "epochs": 2})
    assert (validation, bool(source)) == (set(), True)


def test_sizes_and_classes_are_as_asked() -> None:
    validation, source, devices = sides(recipe="feddf", validation_size=5, source_size=2, source_classes=(1,))
    assert (len(validation), len(source)) == (5, 2)
    assert all(number % 3 == 1 for number in source)
    assert not devices & (validation | source)
    assert sides(recipe="feddf", validation_size=0)[0] == set()
    _, source, devices = sides(recipe="feddf", source="noise", source_size=7, validation_size=0)
    assert (len(source), len(devices)) == (7, 120)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"recipe": "feddf", "source": "none"}, "recipe feddf needs unlabeled samples; give --source"),
        ({"recipe": "feddf", "validation_size": 120}, "--validation-size 120: the training set has 120"),
        ({"compute": "tpu"}, "unknown compute device 'tpu'"),
    ],
)
def test_a_bad_setting_is_named(changes: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sides(**changes)
