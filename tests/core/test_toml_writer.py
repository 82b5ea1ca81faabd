"""Tables written as TOML come back as they were, whatever their strings hold."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.toml_writer import Inline, toml_text, toml_value

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib  # type: ignore[no-redef]

pytestmark = pytest.mark.light
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ZONES = st.none() | st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
VALUES = st.recursive(
    st.booleans()
    | STRINGS
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes(timezones=ZONES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(STRINGS, VALUES, max_size=4))
def test_any_tables_come_back_as_they_were(tables: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(tables, comment="whatever")) == tables
    assert tomllib.loads(toml_text({"in": Inline(tables)})) == {"in": tables}


@pytest.mark.parametrize(
    "text",
    [
        'a "quoted" word',
        "C:\\new\\table",
        "\\",
        '"""',
        "'''",
        "tab\tline\nreturn\r",
        "".join(map(chr, range(32))) + "\x7f\x80\x9f",
        "ünï©ode 🦆  ",
        "# no comment",
        "[no.table]",
        "",
    ],
)
def test_nasty_strings_come_back_as_values_and_as_keys(text: str) -> None:
    tables = {"a": {"plain": text, text: 1, "list": [text, {text: text}]}, text: {"x": {text: "y"}}}
    assert tomllib.loads(toml_text(tables)) == tables


def test_the_layout_is_values_then_tables_then_tables_within() -> None:
    tables = {
        "top": 1,
        "agent": {"device": "pi-07", "tls": {"ca": "ca.pem"}, "level": 0.5, "unset": None},
        "devices": {"a": Inline(key="ab", on=True)},
        "only": {"inner": {"day": date(2024, 2, 29)}},
        "empty": {},
        "many": [1, Inline(x=1.0), {}],
    }
    assert toml_text(tables, comment="Made by hand.") == (
        "# Made by hand.\ntop = 1\nmany = [1, { x = 1.0 }, {}]\n\n"
        '[agent]\ndevice = "pi-07"\nlevel = 0.5\n\n[agent.tls]\nca = "ca.pem"\n\n'
        '[devices]\na = { key = "ab", on = true }\n\n'
        "[only]\n\n[only.inner]\nday = 2024-02-29\n\n[empty]\n"
    )
    assert toml_text({"a": {"b": 1}}) == "[a]\nb = 1\n"
    assert toml_text({}) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (-3, "-3"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
        (datetime(2024, 1, 2, 3, 4, 5, 600, timezone.utc), "2024-01-02T03:04:05.000600+00:00"),
        (datetime(2024, 1, 2), "2024-01-02T00:00:00"),
        (time(7, 30), "07:30:00"),
        ((1, "a"), '[1, "a"]'),
        ("\x7f", '"\\u007f"'),
    ],
)
def test_a_value_is_written_so(value: object, text: str) -> None:
    assert toml_value(value) == text


def test_nan_is_written_as_such() -> None:
    assert math.isnan(tomllib.loads(toml_text({"a": math.nan}))["a"])


@pytest.mark.parametrize(
    "value",
    [
        object(),
        b"bytes",
        "half \ud800",
        [None],
        time(7, tzinfo=timezone.utc),
        datetime(2024, 1, 2, tzinfo=timezone(timedelta(seconds=30))),
    ],
)
def test_what_toml_cannot_hold_is_told_and_not_written(value: object) -> None:
    with pytest.raises(ConfigError):
        toml_text({"a": {"b": value}})
