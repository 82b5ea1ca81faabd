"""Entry points of users."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from core.entry_points import guarded, load_function, origin
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


def test_a_function_that_is_named_anyway_is_named_once() -> None:
    with pytest.raises(ConfigError) as raised:
        load_function(point("math:pi"), "loader 'math:pi'")
    assert str(raised.value) == "loader 'math:pi' is not a function but a float"


def test_what_a_users_function_raises_is_one_line_that_names_its_package() -> None:
    assert guarded(point("math:sqrt"), "part mine")(9.0) == 3.0
    with pytest.raises(ConfigError) as raised:
        guarded(point("math:sqrt"), "part mine")(-1.0)
    assert "entry point 'math:sqrt' of an unnamed package: part mine failed (ValueError: " in str(raised.value)


def test_an_error_of_ours_passes_as_it_is() -> None:
    with pytest.raises(ConfigError, match=r"no fusion part weigh\.nothing"):
        guarded(point("aggregator.recipes.parts:find_part"), "part mine")("weigh", "nothing")
