"""Objects of a program in place of names."""

from typing import Any

import numpy as np
import pytest
import torch

from aggregator.recipes.catalogue import Recipe, find_recipe
from core import own_code
from core.errors import ConfigError
from fleet.attacks.plugins import kind_of
from fleet.data import load
from fleet.simulation.own_code.objects import lend_as, with_names
from models.own.network import OwnNetwork
from tests.fleet.simulation.own_code import own


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "_lent", {})


def test_names_stay_names() -> None:
    given = {"prototypes": "cnn:fp32,mlp:fp32", "dataset": "digits", "recipe": "feddf", "attack": "faulty:2"}
    assert with_names(given) == given
    assert with_names({"prototypes": ["cnn:w1"], "fusion": {"steps": 3}})["fusion"] == {"steps": 3}


def test_networks_are_named_by_class_and_precision() -> None:
    given = with_names({"prototypes": [own.MyNet, (own.MyNet, "w1"), own.NAMED, "cnn:w1", own.MyNet()][:4]})
    assert given["prototypes"] == ["MyNet:fp32", "MyNet:w1", "Named:w1", "cnn:w1"]
    assert with_names({"prototypes": own.MyNet})["prototypes"] == ["MyNet:fp32"]
    assert with_names({"prototypes": (own.MyNet, "w1")})["prototypes"] == ["MyNet:w1"]
    named = own_code.found("model", "Named")
    assert isinstance(named, OwnNetwork)
    assert named.predictor == "fc2"


def test_recipes_and_their_functions_are_lent() -> None:
    assert with_names({"recipe": own.MINE})["recipe"] == "mine"
    recipe = find_recipe("mine")
    assert (recipe.average, recipe.weigh) == ("plain", "largest")
    assert with_names({"recipe": own.plain})["recipe"] == "plain"
    assert find_recipe("plain").title == "The weighted mean, written by a user."
    fusion = with_names({"fusion": {"weigh": own.largest, "screen": ["finite"]}})["fusion"]
    assert fusion == {"weigh": "largest", "screen": ["finite"]}
    assert find_recipe("fedavg", fusion).weigh == "largest"


def test_attacks_have_a_count_or_indices() -> None:
    given = with_names({"attack": {own.drift: 2, own.shifted: [1, 4], "faulty=3": 1}})
    assert given["attack"] == "drift:2,shifted@1+4,faulty=3:1"
    assert (kind_of("drift"), kind_of("shifted")) == ("tamper", "labels")


def test_data_is_named_by_its_content() -> None:
    x, y = own.data()
    name = with_names({"dataset": (x, y)})["dataset"]
    assert name == with_names({"dataset": (torch.from_numpy(x), y.tolist())})["dataset"]
    assert name != with_names({"dataset": (x + 1, y)})["dataset"]
    assert (load(name).name, load(name).input_shape, load(name).classes) == (name, (1, 8, 8), 3)


class Two:
    """A partitioner with samples."""

    num_partitions = 2

    def load_partition(self, index: int) -> Any:
        x, y = own.data()
        return x[index::2], y[index::2]


def test_a_partitioner_is_dataset_partition_and_number_of_devices() -> None:
    given = with_names({"dataset": Two()})
    assert (given["partition"], given["devices"]) == ("Two", "2")
    assert with_names({"dataset": Two(), "partition": "iid", "devices": 4})["devices"] == 4


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"objective": lambda logits, y: logits}, "objective '<lambda>' has no name"),
        ({"recipe": Recipe(name="fedavg", title="", paper="")}, "recipe 'fedavg' is the name of a built-in one"),
        ({"prototypes": [3]}, "prototype int: is a int"),
        ({"objective": own.drift}, "objective drift takes 4 arguments"),
        ({"attack": {own.focal: 1, own.loop: 1}}, "attack loop: give a function"),
        ({"dataset": 3.5}, "is a float; give arrays"),
        ({"prototypes": [own.NAMED, type("Named", (own.MyNet,), {})]}, "'Named': two different"),
    ],
)
def test_mistakes_are_one_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Exception, match=says) as caught:
        with_names(given)
    assert "\n" not in str(caught.value)


def test_what_a_file_holds_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"partition own.py:broken is a int, expected a function"):
        lend_as("partition", "own.py:broken", own.broken)
    with pytest.raises(ConfigError, match="recipe broken is a int, expected a Recipe"):
        lend_as("recipe", "own.py:broken", own.broken)
    with pytest.raises(ConfigError, match="'cnn' is the name of a built-in"):
        lend_as("model", "cnn", own.MyNet)


def test_arrays_of_numpy_scalars_count() -> None:
    assert with_names({"attack": {"faulty": np.int64(2)}})["attack"] == "faulty:2"
