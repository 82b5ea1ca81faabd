"""Reports of runs in virtual time."""

import json
from pathlib import Path

import pytest

from core.errors import DataError
from fleet.report.facts import RunFacts, read_facts
from fleet.report.figures.style import LIGHT
from fleet.report.figures.virtual import BoardTotal, board_totals, draw_virtual, missed, virtual_seconds
from fleet.report.html.page import page
from tests.fleet.report.made import a_run, facts, written


def on_boards(folder: Path, **change: object) -> Path:
    """Three rounds of one minute on two boards, one of which has two devices."""
    run = a_run(virtual={"boards": ["rpi-4", "jetson-orin-nano", "rpi-4"]})
    file = written(folder, run) / "run.json"
    told = json.loads(file.read_text())
    for number, one in enumerate(told["rounds"]):
        use = {"seconds": 40.0, "train_seconds": 30.0, "joules": 250.0, "bytes_up": 10, "bytes_down": 20}
        one["virtual"] = {
            "opened_s": 60.0 * number,
            "closed_s": 60.0 * (number + 1),
            "invited": 3,
            "late": ["sim-1"] if number else [],
            "lost": [],
            "boards": {"rpi-4": use, "jetson-orin-nano": {**use, "joules": 1000.0}},
            **change,
        }
    file.write_text(json.dumps(told))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunFacts:
    return read_facts(on_boards(tmp_path / "boards"), "boards")


def test_totals_are_over_rounds_and_devices_of_a_board(run: RunFacts) -> None:
    jetson, pi = board_totals(run)
    assert pi == BoardTotal(
        board="rpi-4", devices=2, seconds=120.0, train_seconds=90.0, joules=750.0, bytes_up=30, bytes_down=60
    )
    assert (jetson.devices, jetson.joules) == (1, 3000.0)
    assert virtual_seconds(run) == 180.0
    assert missed(run) == "2 updates late, 0 lost, 0 rounds abandoned"


def test_accuracy_is_drawn_over_the_boards_time_and_energy_per_device(run: RunFacts) -> None:
    figure = draw_virtual([run], LIGHT)
    assert figure is not None
    (line,) = figure.axes[0].lines
    assert list(line.get_xdata()) == [1, 2, 3]
    assert [bar.get_width() for bar in figure.axes[1].patches] == [3.0, 0.375]


def test_the_page_tells_what_one_device_needs(run: RunFacts) -> None:
    text = page([run], [], 0.7)
    assert "3.0 min in all, 2 updates late" in text
    row = '<th scope="row">rpi-4</th><td class="number">2</td><td class="number">60.0 s</td>'
    assert row in text
    assert '<td class="number">0.38 kJ</td>' in text


def test_a_run_in_real_time_has_no_such_section(tmp_path: Path) -> None:
    plain = facts(tmp_path / "plain")
    assert draw_virtual([plain], LIGHT) is None
    assert board_totals(plain) == []
    assert 'id="boards"' not in page([plain], [], 0.7)


def test_what_is_no_virtual_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="closed_s"):
        read_facts(on_boards(tmp_path / "bad", closed_s="soon"), "bad")
