"""The processor's temperature, where the board tells it."""

from pathlib import Path

import pytest

from edge_agent.host.telemetry import temperature_c

pytestmark = pytest.mark.light


def test_thousandths_of_a_degree_become_degrees(tmp_path: Path) -> None:
    (tmp_path / "temp").write_text("61512\n")
    assert temperature_c(tmp_path / "temp") == 61.512


@pytest.mark.parametrize("text", ["", "hot\n", "61.5\n"])
def test_what_is_no_whole_number_is_not_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "temp").write_text(text)
    assert temperature_c(tmp_path / "temp") is None


def test_a_board_without_a_sensor_tells_nothing(tmp_path: Path) -> None:
    assert temperature_c(tmp_path / "absent") is None
    assert temperature_c(tmp_path) is None
