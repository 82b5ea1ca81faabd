"""Numbers as people read them, at the borders between units."""

import pytest

from fleet.report.units import DASH, percent, size, span


@pytest.mark.parametrize(("value", "text"), [(0.0, "0.0 %"), (1.0, "100.0 %"), (0.9996, "100.0 %"), (None, DASH)])
def test_shares_are_percent(value: float | None, text: str) -> None:
    assert percent(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0.0 kB"), (999_949, "999.9 kB"), (1_000_000, "1.0 MB"), (1e9, "1.0 GB"), (5e13, "50000.0 GB"), (None, DASH)],
)
def test_bytes_are_in_the_unit_that_fits_in_powers_of_ten(count: float | None, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 s"), (119.9, "119.9 s"), (120, "2.0 min"), (7199, "120.0 min"), (7200, "2.0 h")]
)
def test_times_are_in_seconds_minutes_or_hours(seconds: float, text: str) -> None:
    assert span(seconds) == text
