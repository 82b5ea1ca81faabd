"""The tables of fleet.toml one by one, and `--set table.key=value`."""

from typing import Any

import pytest

from aggregator.config.tables import LimitConfig, RoundConfig, TaskConfig, as_environment, split_tables
from core.errors import ConfigError
from core.settings import read
from wire.messages import Task

pytestmark = pytest.mark.light


def task(shape: Any) -> TaskConfig:
    tables = split_tables({"task": {"input_shape": shape, "classes": 3}}, "fleet.toml")
    return read(TaskConfig, tables["task"], "fleet.toml [task]", environ={})


@pytest.mark.parametrize(
    ("written", "shape"), [("3x32x32", (3, 32, 32)), ([3, 32, 32], (3, 32, 32)), ("1X8X8", (1, 8, 8)), ([64], (64,))]
)
def test_a_shape_is_a_list_or_a_text(written: Any, shape: tuple[int, ...]) -> None:
    assert task(written).input_shape == shape


@pytest.mark.parametrize("written", ["0x8", [1, -8], "1x2x3x4x5", "", [], 64, [1.5], ["a"], "3x", "9999999999"])
def test_a_shape_that_is_none_is_told_with_how_to_write_it(written: Any) -> None:
    with pytest.raises(ConfigError, match=r"^fleet.toml \[task\]: 'input_shape' is .*; write it like \"3x32x32\""):
        task(written)


def told(**own: Any) -> TaskConfig:
    tables = split_tables({"task": {"input_shape": [3, 8, 8], "classes": 2, **own}}, "fleet.toml")
    return read(TaskConfig, tables["task"], "fleet.toml [task]", environ={})


def test_a_task_is_told_only_if_the_table_says_more_than_shapes() -> None:
    assert told().message is None
    assert told(kind="image").message == Task(kind="image")
    full = told(class_names=["cat", "dog"], mean=127.5, std=[63, 62, 66.5], kind="image")
    assert full.message == Task(class_names=("cat", "dog"), kind="image", mean=(127.5,), std=(63.0, 62.0, 66.5))
    variables = {"T_CLASS_NAMES": "cat, dog", "T_MEAN": "1,2,3", "T_STD": "4", "T_INPUT_SHAPE": "3x8x8"}
    from_variables = read(TaskConfig, {"classes": 2}, "here", env="T", environ=variables)
    assert from_variables.message == Task(class_names=("cat", "dog"), mean=(1.0, 2.0, 3.0), std=(4.0,))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"class_names": ["cat"]}, "class_names: 1 names for 2 classes"),
        ({"class_names": ["cat", "cat"]}, "class_names: a name is there twice"),
        ({"class_names": ["a", "../b"]}, "class_names: '../b' cannot name a folder"),
        ({"class_names": "cat"}, "'class_names' is 'cat', expected a list of strings"),
        ({"mean": 1.0}, "give both"),
        ({"mean": [1, 2], "std": 1}, "mean: 2 numbers for 3 channels"),
        ({"mean": "x", "std": 1}, "'mean' is 'x'; give one number, or a list of one per channel"),
        ({"mean": [], "std": 1}, "give one number"),
        ({"mean": True, "std": 1}, "give one number"),
        ({"mean": 0, "std": 0}, "std above 0"),
        ({"kind": "photo"}, "known: image series features text"),
        ({"kind": "image", "sample_rate": 50}, "only a series has one"),
        ({"kind": "image", "input_shape": [64]}, "image, but inputs have 1 axes"),
    ],
)
def test_a_task_that_does_not_fit_its_samples_is_refused(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^fleet.toml \[task\]: .*{message}"):
        told(**own)


def test_every_table_is_there_and_those_of_the_manifest_are_left_to_it() -> None:
    found = split_tables({"round": {"rounds": 3}, "provision": {"user": "pi"}, "group": {"a": {}}}, "fleet.toml")
    assert found["round"] == {"rounds": 3}
    assert found["limits"] == found["broker"] == found["devices"] == {}
    assert not {"provision", "group"} & set(found)
    with pytest.raises(ConfigError, match=r"^fleet.toml: unknown table \[rounds\]; did you mean 'round'\?$"):
        split_tables({"rounds": {}}, "fleet.toml")
    with pytest.raises(ConfigError, match="'round'"):
        split_tables({"round": 3}, "fleet.toml")


def test_settings_become_variables_of_the_aggregator_and_of_its_broker() -> None:
    settings = ["round.rounds=3", " train.lr = 0.1 ", "broker.password=a=b", "fusion.recipe="]
    assert as_environment(settings) == {
        "EDGESTILL_AGGREGATOR_ROUND_ROUNDS": "3",
        "EDGESTILL_AGGREGATOR_TRAIN_LR": "0.1",
        "EDGESTILL_BROKER_PASSWORD": "a=b",
        "EDGESTILL_AGGREGATOR_FUSION_RECIPE": "",
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rounds=3", "write it as table.key=value"),
        ("round.rounds", "write it as table.key=value"),
        ("rund.rounds=3", r"no table \[rund\]; did you mean 'round'"),
        ("devices.pi-0=x", r"no table \[devices\]$"),
        ("broker.prot=1", r"no key 'prot' in \[broker\]; did you mean 'port'"),
    ],
)
def test_a_setting_that_names_nothing_is_told(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^--set '{setting}': {message}"):
        as_environment([setting])


def test_bits_are_said_of_deltas_only() -> None:
    assert RoundConfig(delta_bits=2).bits is None
    assert RoundConfig(update="delta", delta_bits=2).bits == 2
    with pytest.raises(ConfigError, match="'delta_bits' is 3; give 8, 4, 2 or 1"):
        RoundConfig(delta_bits=3)


def test_the_last_chunk_of_an_update_may_be_a_short_one() -> None:
    assert LimitConfig(update_mb=1).update_chunks == 16  # 10^6 = 15 * 65536 + 16960
    assert LimitConfig(update_mb=1).update_bytes == 1_000_000
    assert LimitConfig(mb_per_minute=7).bytes_per_minute == 7_000_000
