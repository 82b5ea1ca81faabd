"""Partitions by name: what holds for all of them, and what a wrong name or option says."""

import re

import numpy as np
import pytest

from core.errors import ConfigError
from fleet.partition import PARTITIONS, parse_options, partition, uses_alpha

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(5), 200))
PINNED = {
    "dirichlet": [[4, 7, 1, 8, 0], [10, 6, 5, 11, 9, 3, 2]],
    "iid": [[9, 2, 7, 4, 5, 11], [0, 3, 6, 10, 8, 1]],
    "fedgen": [[4, 10, 11, 5, 8, 2], [1, 7, 9, 0, 3, 6]],
}
WHOLE = {"dirichlet", "iid", "iid-skew", "shards", "fedrad", "fedrad-iid"}


@pytest.mark.parametrize("name", PARTITIONS)
def test_no_sample_goes_to_two_devices(name: str) -> None:
    parts = partition(name, LABELS, devices=10, alpha=0.5)
    joined = np.concatenate(parts)
    assert len(parts) == 10
    assert len(np.unique(joined)) == len(joined)
    assert joined.min() >= 0
    assert joined.max() < len(LABELS)
    assert (len(joined) == len(LABELS)) == (name in WHOLE)


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_seed_decides(name: str) -> None:
    first, again, other = (partition(name, LABELS, devices=6, alpha=0.5, seed=seed) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("name", PARTITIONS)
def test_labels_are_left_as_they_were(name: str) -> None:
    labels = LABELS.copy()
    partition(name, labels, devices=6, alpha=0.5)
    assert np.array_equal(labels, LABELS)


@pytest.mark.parametrize(
    ("name", "seed", "options"),
    [("dirichlet", 0, {}), ("iid", 0, {}), ("fedgen", 42, {"ratio": 1.0, "min_size": 1})],
)
def test_literal_draws_are_the_same_on_every_machine(name: str, seed: int, options: dict[str, float]) -> None:
    parts = partition(name, np.array([0, 1, 2] * 4), devices=2, seed=seed, **options)
    assert [part.tolist() for part in parts] == PINNED[name]


def test_alpha_is_passed_where_it_means_something() -> None:
    assert [name for name in PARTITIONS if not uses_alpha(name)] == ["iid", "shards", "fedrad-iid"]
    same = [partition("iid", LABELS, devices=4, alpha=alpha) for alpha in (0.1, 10.0)]
    assert all(np.array_equal(a, b) for a, b in zip(*same, strict=True))


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown partition 'dirichlett'; .* did you mean 'dirichlet'"):
        partition("dirichlett", LABELS, devices=2)


def test_an_unknown_option_is_told_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"partition shards: unknown option 'class_per_device'; .* 'classes_per_device'"
    ):
        partition("shards", LABELS, devices=2, class_per_device=2)


@pytest.mark.parametrize(
    ("devices", "says"), [(0, "0 devices; give at least 1"), (1001, "1001 devices for 1000 samples")]
)
@pytest.mark.parametrize("name", ["iid", "iid-skew", "dirichlet", "shards", "fedgen", "fedrad", "fedrad-iid"])
def test_a_wrong_number_of_devices_is_refused(name: str, devices: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        partition(name, LABELS, devices=devices)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", [name for name in PARTITIONS if uses_alpha(name)])
def test_a_wrong_alpha_is_refused(name: str, alpha: float) -> None:
    with pytest.raises(ConfigError, match="give a positive number"):
        partition(name, LABELS, devices=4, alpha=alpha)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="seed -1; give 0 or more"):
        partition("iid", LABELS, devices=2, seed=-1)


@pytest.mark.parametrize(
    ("name", "option", "value", "says"),
    [
        ("shards", "classes_per_device", 1.5, "option classes_per_device is 1.5; give a value like 2"),
        ("shards", "classes_per_device", True, "is True; give a value like 2"),
        ("feddf", "equal", 0, "is 0; give a value like True"),
        ("fedgen", "ratio", False, "is False; give a value like 0.5"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, option: str, value: float, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        partition(name, LABELS, devices=2, **{option: value})


def test_a_whole_number_will_do_for_a_fraction() -> None:
    assert sum(len(part) for part in partition("fedgen", LABELS, devices=2, ratio=1)) == 1000


def test_options_of_a_command_line_are_numbers_or_yes_and_no() -> None:
    texts = ["min_size=0", "ratio=0.25", "tiny=1e-3", "equal=no", "other=yes"]
    assert parse_options(texts) == {"min_size": 0, "ratio": 0.25, "tiny": 0.001, "equal": False, "other": True}
    assert isinstance(parse_options(["min_size=0"])["min_size"], int)


@pytest.mark.parametrize("text", ["alpha=1", "devices=3", "seed=0"])
def test_what_has_a_flag_of_its_own_is_no_option(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an option of the partition; give --"):
        parse_options([text])


@pytest.mark.parametrize("text", ["min_size", "min_size=", "min_size=two", "min_size=0x1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give NAME=VALUE with a number, yes or no"):
        parse_options([text])
