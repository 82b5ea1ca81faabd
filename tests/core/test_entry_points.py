"""Entry points of users."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from core.entry_points import load_function, origin
from core.errors import ConfigError

pytestmark = pytest.mark.light


def point(value: str) -> EntryPoint:
    return EntryPoint(name="mine", value=value, group="g")


def test_a_function_is_loaded() -> None:
    assert load_function(point("math:sqrt"), "part mine")(9.0) == 3.0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("math:pi", "part mine is not a function but a float"),
        ("math:nothing", r"part mine does not load \(AttributeError: .*nothing"),
        ("no.such.module:f", r"part mine does not load \(ModuleNotFoundError: "),
    ],
)
def test_what_is_no_function_is_one_line_that_names_its_origin(value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        load_function(point(value), "part mine")
    assert str(raised.value).startswith(origin(point(value)))
    assert "\n" not in str(raised.value)
    assert origin(point(value)) == f"entry point {value!r} of an unnamed package"
