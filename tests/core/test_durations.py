"""Seconds in words, at the borders between units."""

import pytest

from core.durations import coarse, span

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(119.9, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_799, "47 h"), (172_800, "2 days")],
)
def test_whole_units(seconds: float, text: str) -> None:
    assert coarse(seconds) == text


def test_one_decimal() -> None:
    assert [span(119), span(120), span(7199), span(7200)] == ["119.0 s", "2.0 min", "120.0 min", "2.0 h"]
