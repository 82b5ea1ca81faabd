"""When an observer is told what, and that a display tells the same things."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgestill.api.callbacks import Watching
from edgestill.cli.progress import RunDisplay
from fleet.results.run_file import RoundResult, Run
from fleet.simulation.config import SimulationConfig
from fleet.simulation.observer import Observer
from fleet.simulation.run import run_simulation


class Diary(Observer):
    """Writes down everything, and which files there are at that time."""

    def __init__(self, folder: Path, *, fail: bool = False) -> None:
        self.folder, self.fail = folder, fail
        self.said: list[str] = []

    @contextmanager
    def watch(self, run: Run, *, per_round: int, at_once: int) -> Iterator[None]:
        self.said.append("begin")
        try:
            yield
        finally:
            self.said.append("end")

    def device_done(self, device: str) -> None:
        self.said.append("device")
        if self.fail:
            raise RuntimeError("the display broke")

    def round_done(self, result: RoundResult) -> None:
        self.said.append(f"round {result.round}, {'a' if (self.folder / 'run.json').exists() else 'no'} file")


def test_devices_come_before_their_round_and_a_round_before_its_file(config: SimulationConfig, tmp_path: Path) -> None:
    diary = Diary(tmp_path / "run")
    run_simulation(config, tmp_path / "run", observer=diary)
    devices = ["device"] * config.devices
    assert diary.said == ["begin", *devices, "round 1, no file", *devices, "round 2, a file", "end"]


def test_the_watch_is_left_by_an_exception_too(config: SimulationConfig, tmp_path: Path) -> None:
    diary = Diary(tmp_path / "run", fail=True)
    with pytest.raises(RuntimeError, match="the display broke"):
        run_simulation(replace(config, rounds=1), tmp_path / "run", observer=diary)
    assert diary.said == ["begin", "device", "end"]


def test_nobody_swallows_nothing() -> None:
    def fail() -> None:
        with Observer().watch(Run(config={}, fleet=[]), per_round=1, at_once=1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()


def test_displays_override_methods_with_their_own_parameters_and_a_run_that_is_watched_all() -> None:
    for name, method in inspect.getmembers(Observer, inspect.isfunction):
        assert getattr(Watching, name) is not method, name
        for observer in (RunDisplay, Watching):
            own = getattr(observer, name)
            assert [p.name for p in inspect.signature(own).parameters.values()] == [
                p.name for p in inspect.signature(method).parameters.values()
            ]
