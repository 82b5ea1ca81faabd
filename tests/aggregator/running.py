"""The aggregator as a real process beside scripted devices."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from core.errors import ConfigError
from tests.aggregator.scripted import Device, write_fleet
from transport.config import BrokerConfig

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["pi-0", "pi-1", "pi-2"]
CODE = """
import sys
from aggregator.config.fleet import load_fleet_config
from aggregator.service import serve
from core.logs import setup_logging
setup_logging("line", "debug")
serve(load_fleet_config(sys.argv[1]), until_done="--until-done" in sys.argv)
"""


class Aggregator:
    """One life of the service after another on the same state folder; its log is beside its config."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.log = config.parent / "aggregator.log"
        self.process: subprocess.Popen | None = None

    def start(self, *flags: str, crash_at: str | None = None, env: Mapping[str, str] = MappingProxyType({})) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **env}
        env.pop("EDGESTILL_CRASH_AT", None)
        if crash_at:
            env["EDGESTILL_CRASH_AT"] = crash_at
        with self.log.open("ab") as log:
            command = [sys.executable, "-c", CODE, str(self.config), *flags]
            self.process = subprocess.Popen(command, env=env, stderr=log, stdout=log)

    def wait(self, seconds: float = 600) -> int:
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self.log.read_text()[-3000:]}") from None

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.wait()

    def __enter__(self) -> Aggregator:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def journal(self) -> Journal:
        return Journal(load_fleet_config(self.config).state / "journal.db", read_only=True)

    def until(self, true: Callable[[Journal], bool], seconds: float = 600) -> None:
        """Wait until the journal says so."""
        wait_until(lambda: self._ask(true), seconds, lambda: self.log.read_text()[-3000:])

    def _ask(self, true: Callable[[Journal], bool]) -> bool:
        try:
            journal = self.journal()
        except ConfigError:  # not there yet
            return False
        try:
            return true(journal)
        finally:
            journal.close()


class Devices:
    """Scripted devices that run while the block runs; the i-th has the i-th prototype."""

    def __init__(
        self,
        broker: BrokerConfig,
        names: list[str],
        prototypes: tuple[str, ...] = ("mlp:fp32", "cnn:w1"),
        kind: type[Device] = Device,
    ) -> None:
        self.all = [kind(name, prototypes[i % len(prototypes)], broker) for i, name in enumerate(names)]

    def __enter__(self) -> list[Device]:
        for device in self.all:
            device.start()
        return self.all

    def __exit__(self, *_: object) -> None:
        for device in self.all:
            device.end()


def fleet(folder: Path, broker, started: Path, names: list[str] = NAMES, **tables: str) -> Aggregator:
    """A service on a copy of the state folder `started`."""
    path = write_fleet(folder, broker.config, names, **tables)
    shutil.copytree(started, folder / "state")
    return Aggregator(path)


def command(service: Aggregator, verb: str, argument: str = "") -> str:
    """Leave a command for the service, and wait for its answer."""
    journal = Journal(service.config.parent / "state" / "journal.db")
    try:
        number = journal.ask(verb, argument)
        wait_until(lambda: journal.answer_of(number) is not None)
        answer = journal.answer_of(number)
        assert answer is not None
        return answer.stored
    finally:
        journal.close()


def wait_until(true: Callable[[], bool], seconds: float = 600, told: Callable[[], str] = lambda: "") -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"not within {seconds} s: {told()}"
        time.sleep(0.02)
