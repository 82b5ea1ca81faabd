"""What the annotations of settings say, and the ranges that they bring along."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import pytest

from core.errors import ConfigError
from core.limits import Range
from core.settings import describe
from fleet.simulation.settings.panels import (
    PANELS,
    check_ranges,
    in_fleet,
    in_fusion,
    in_output,
    in_time,
    in_training,
    key_of,
)

pytestmark = pytest.mark.light


@dataclass(frozen=True, kw_only=True)
class Toy:
    rounds: Annotated[int, in_fleet("How many.", Range(1, 9))] = 1
    deadline_s: Annotated[float, in_time("Until it closes.", Range(0.5, 60), key="dead_line")] = 1.0
    size: Annotated[int, in_fusion("Of all.", Range(2, 4))] | None = None
    share: Annotated[float, in_training("Of them.")] = 0.5
    name: Annotated[str, in_output("Of the file.", written="auto")] = "x"


def test_panels_are_named_in_the_order_of_help() -> None:
    fields = describe(Toy)
    by_panel = {field.extra["panel"]: name for name, field in fields.items()}
    assert [by_panel[panel] for panel in PANELS] == ["rounds", "size", "share", "deadline_s", "name"]
    assert (fields["name"].extra["written"], fields["name"].help) == ("auto", "Of the file.")


def test_a_setting_has_the_name_of_its_field_unless_it_says_another() -> None:
    fields = describe(Toy)
    assert (key_of(fields["rounds"]), key_of(fields["deadline_s"])) == ("rounds", "dead_line")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rounds": 0}, "--rounds 0; give at least 1"),
        ({"rounds": 10}, "--rounds 10; give at most 9"),
        ({"deadline_s": 0.1}, "--dead-line 0.1; give at least 0.5"),
        ({"deadline_s": math.nan}, "--dead-line nan; give at least 0.5"),
        ({"size": 5}, "--size 5; give at most 4"),
    ],
)
def test_a_number_out_of_its_range_is_told_by_its_flag(changes: dict[str, float], says: str) -> None:
    check_ranges(Toy(rounds=9, deadline_s=0.5, share=1e9))
    with pytest.raises(ConfigError, match=f"^{says}$"):
        check_ranges(Toy(**changes))  # type: ignore[arg-type]
