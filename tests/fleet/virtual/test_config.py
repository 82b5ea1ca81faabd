"""What a simulation in virtual time may be told."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from fleet.virtual.config import VirtualTime


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"deadline_s": 0.0}, "--deadline 0; give at least"),
        ({"deadline_s": float("nan")}, "--deadline nan"),
        ({"quorum": 0.0}, r"--quorum 0; give a number above 0 and at most 1"),
        ({"quorum": 1.1}, "quorum"),
        ({"buffer": -1}, "--buffer -1; give at least 0"),
        ({"concurrency": 4}, "--concurrency requires --buffer"),
        ({"staleness": 1.0}, "--staleness and --max-staleness require --buffer"),
        ({"boards": ("pi-nonsense",)}, "pi-nonsense"),
        ({"availability": 0.0}, "availab"),
        ({"dropout": 1.5}, "drop"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(wrong: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        VirtualTime(**{"boards": ("rpi-4",), **wrong})


def test_hardware_is_listed_by_the_number_of_the_device() -> None:
    boards = VirtualTime(boards=("rpi-5", "rpi-4", "rpi-5")).hardware_of_all()
    assert boards[0] == boards[2] != boards[1]
    assert VirtualTime(boards=("rpi5", "rpi4", "rpi5")).hardware_of_all() == boards  # as the check lets it pass


def test_a_trace_may_speak_of_devices_of_the_fleet_only(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("device,from,to\nd7,0,10\n")
    told = VirtualTime(boards=("rpi-4",), trace=str(trace))
    with pytest.raises(ConfigError, match=r"trace\.csv: no device 'd7' in this fleet; it has d0 to d1"):
        told.when(["d0", "d1"], 0)
    assert list(told.when(["d0", "d7"], 3).windows) == ["d7"]
    assert told.when(["d7"], 3).seed == 3
