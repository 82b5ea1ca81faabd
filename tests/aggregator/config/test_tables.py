"""The tables of fleet.toml one by one, and `--set table.key=value`."""

from typing import Any

import pytest

from aggregator.config.tables import LimitConfig, RoundConfig, TaskConfig, as_environment, split_tables
from core.errors import ConfigError
from core.settings import read

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
        ("devices.pi-0=x", r"no table \[devices\]"),
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
