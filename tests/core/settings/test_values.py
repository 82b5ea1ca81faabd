"""One value for one field: what texts mean, what is converted, and what every mistake is answered with."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from core.settings import describe
from core.settings.fields import Field
from core.settings.values import LARGEST_FLOAT, LARGEST_INT, checked, value_of
from tests.core.sample_settings import Agent

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("verbose", "Yes", True),
        ("verbose", " OFF ", False),
        ("verbose", "0", False),
        ("lr", "1e-3", 0.001),
        ("lr", "2", 2.0),
        ("tags", "a, b,,c", ("a", "b", "c")),
        ("tags", "", ()),
        ("state", "/var/x", Path("/var/x")),
        ("floats", "fp32", "fp32"),
        ("bits", "1", 1),
        ("labels", "0, 3", (0, 3)),
        ("files", "a,/b", (Path("a"), Path("/b"))),
        ("size", "3x4", (3, 4)),
    ],
)
def test_a_text_becomes_a_value_of_the_fields_type(name: str, text: str, value: Any) -> None:
    made = value_of(describe(Agent)[name], text, "x")
    assert (made, type(made)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threads", "2", " is '2', expected a whole number"),
        ("threads", True, " is True, expected a whole number"),
        ("threads", 1.0, " is 1.0, expected a whole number"),
        ("threads", 9, " is 9, expected a whole number from 1 to 8"),
        ("threads", 0, " is 0, expected a whole number from 1 to 8"),
        ("memory_mb", 9, " is 9, expected a whole number of at least 64"),
        ("memory_mb", 2**53 + 1, " is 9007199254740993, expected a whole number from 64 to 9.0072e+15"),
        ("lr", -1, " is -1.0, expected a number of at least 0"),
        ("lr", float("nan"), " is nan, expected a number of at least 0"),
        ("lr", float("inf"), " is inf, expected a number from 0 to 1e+15"),
        ("lr", True, " is True, expected a number"),
        ("verbose", 1, " is 1, expected true or false"),
        ("state", "", " is '', expected a path"),
        ("tags", "a", " is 'a', expected a list of strings"),
        ("tags", ["a", 1], " is ('a', 1), expected a list of strings"),
        ("labels", ["a"], " is ('a',), expected a list of whole numbers"),
        ("labels", [True], " is (True,), expected a list of whole numbers"),
        ("files", [""], " is ('',), expected a list of paths"),
        ("floats", "fp23", " is 'fp23'; did you mean 'fp32'?; known: fp16 fp32"),
        ("bits", 3, " is 3; known: 8 1"),
        ("options", 1, " is 1, expected a table"),
        ("password", 1234, " is (hidden), expected a string"),
        ("size", "3by4", " is '3by4'; write it like \"3x4\""),
    ],
)
def test_a_wrong_value_is_told_with_what_is_expected(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(describe(Agent)[name], value, f"'{name}'")
    assert str(caught.value) == f"'{name}'{message}"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("verbose", "maybe", "x is 'maybe', expected true or false"),
        ("labels", "0,b", "x is '0,b', expected a list of whole numbers"),
        ("threads", "1e3", "x is '1e3', expected a whole number"),
    ],
)
def test_a_text_that_means_nothing_is_shown_as_it_was_given(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        value_of(describe(Agent)[name], text, "x")
    assert str(caught.value) == message


def test_a_number_without_bounds_is_bounded_by_what_a_double_counts() -> None:
    count, share = Field(name="n", kind=int), Field(name="x", kind=float)
    assert checked(count, -LARGEST_INT, "n") == -LARGEST_INT
    assert checked(share, LARGEST_FLOAT, "x") == LARGEST_FLOAT
    for field, value in ((count, LARGEST_INT + 1), (share, 2 * LARGEST_FLOAT), (share, LARGEST_INT + 1)):
        with pytest.raises(ConfigError):
            checked(field, value, field.name)


def test_a_path_is_of_the_users_home_and_none_that_no_system_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    field = Field(name="state", kind=Path)
    assert checked(field, "~/state", "state") == Path("/home/ada/state")
    for text in ("a\0b", "a" * 4097):
        with pytest.raises(ConfigError, match="expected a path"):
            checked(field, text, "state")


def test_a_list_of_numbers_may_have_whole_ones() -> None:
    field = Field(name="mean", kind=tuple, item=float)
    assert checked(field, [1, 2.5], "x") == value_of(field, "1, 2.5", "x") == (1.0, 2.5)
    for value in ([True], ["1"], 1.0):
        with pytest.raises(ConfigError, match=r"^x is .*, expected a list of numbers$"):
            checked(field, value, "x")
