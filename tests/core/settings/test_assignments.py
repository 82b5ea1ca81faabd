"""`--set table.key=value`: one variable each, or one line that says what to write."""

import pytest

from core.errors import ConfigError
from core.settings.assignments import assignments

pytestmark = pytest.mark.light
TABLES = {"round": ["rounds", "quorum"], "broker": ["port"]}
PREFIXES = {"round": "EDGESTILL_AGGREGATOR_ROUND", "broker": "EDGESTILL_BROKER"}


def test_each_setting_is_a_variable_of_its_tables_prefix() -> None:
    settings = ["round.rounds=3", " broker.port = 1884", "round.quorum=a=b"]
    assert assignments(settings, TABLES, PREFIXES, example="round.rounds=3") == {
        "EDGESTILL_AGGREGATOR_ROUND_ROUNDS": "3",
        "EDGESTILL_BROKER_PORT": "1884",
        "EDGESTILL_AGGREGATOR_ROUND_QUORUM": "a=b",
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rounds=3", "--set 'rounds=3': write it as table.key=value, such as round.rounds=3"),
        ("round.rounds", "--set 'round.rounds': write it as table.key=value, such as round.rounds=3"),
        ("rund.rounds=3", r"--set 'rund.rounds=3': no table \[rund\]; did you mean 'round'\?"),
        ("round.runds=3", r"--set 'round.runds=3': no key 'runds' in \[round\]; did you mean 'rounds'\?"),
        ("round.=3", r"--set 'round.=3': no key '' in \[round\]"),
    ],
)
def test_a_setting_that_is_none_is_refused_with_what_to_write(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        assignments([setting], TABLES, PREFIXES, example="round.rounds=3")
