"""The fleet that emulated boards join: manifest, kits, broker and aggregator on this machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from aggregator.storage.journal import Journal
from core.errors import ConfigError
from fleet.mqtt.processes import Processes
from tests.boards.cards import copy_card
from tests.boards.emulated import BOOT_S, BROKER, EmulatedBoard
from tests.brokers import free_port
from tests.firmware_configs.brokers import Provisioned

MANIFEST = """
[fleet]
id = "boards"
[broker]
host = "127.0.0.1"
port = {port}
[broker.tls]
ca = "kits/_fleet/aggregator/ca.pem"
cert = "kits/_fleet/aggregator/aggregator.pem"
key = "kits/_fleet/aggregator/aggregator.key"
[devices]
keys_dir = "kits/_fleet/devices"
[state]
dir = "state"
key = "aggregator.key"
[task]
input_shape = [1, 8, 8]
classes = 10
[prototypes]
names = ["cnn:w1"]
[round]
min_devices = 1000
deadline_s = 3000
[train]
steps = 5
batch_size = 8
[provision]
host = "{host}"
server_names = ["127.0.0.1"]
{groups}
"""


@dataclass
class BoardFleet:
    """A provisioned fleet, its broker and processes on this machine, and the boards that were booted."""

    folder: Path
    broker: Provisioned
    processes: Processes
    boards: list[EmulatedBoard] = field(default_factory=list)

    def edgestill(self, *arguments: object) -> str:
        """A command of the operator's; what it prints."""
        command = [sys.executable, "-m", "edgestill", *(str(argument) for argument in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def flash(self, device: str, card: Path) -> Path:
        """A copy of `card` with the kit of `device`."""
        out = copy_card(card, self.folder / f"{device}.img")
        self.edgestill("flash", f"kits/{device}", "--to", out)
        return out

    def board(self, device: str, card: Path, *, memory_mb: int) -> EmulatedBoard:
        """A board with this card, still off."""
        board = EmulatedBoard(device, self.folder / device, card, self.broker.port, memory_mb=memory_mb)
        self.boards.append(board)
        return board

    def agent_here(self, device: str) -> None:
        """An agent of this machine, with the kit of `device`; it runs until the next `serve`."""
        own = {
            "broker.host": "127.0.0.1",
            "agent.state_dir": self.folder / "here",
            "data.path": self.folder / "samples.npz",
        }
        settings = [word for key, value in own.items() for word in ("--set", f"{key}={value}")]
        self.processes.start(device, ["agent", "run", "--config", f"kits/{device}/agent.toml", *settings])

    def until(self, true: Callable[[Journal], bool], limit: float = BOOT_S) -> None:
        """Wait until the aggregator's journal says so."""
        until = time.monotonic() + limit
        while time.monotonic() < until:
            with suppress(ConfigError), closing(self.journal()) as journal:
                self._note_online(journal)
                if true(journal):
                    return
            self.processes.check()
            for board in self.boards:
                board.check()
            time.sleep(1)
        consoles = "\n".join(f"== {board.name}\n{board.console()[-3000:]}" for board in self.boards)
        raise AssertionError(f"{self.edgestill('device', 'list', '--config', 'fleet.toml')}\n{consoles}")

    def _note_online(self, journal: Journal) -> None:
        online = {row.id for row in journal.devices() if row.status == "online"}
        for board in self.boards:
            if board.name in online:
                board.online = board.online or time.monotonic()

    def until_online(self, *devices: str) -> None:
        """Wait until the aggregator knows that these devices are connected."""

        def online(journal: Journal) -> bool:
            return {row.id for row in journal.devices() if row.status == "online"} >= set(devices)

        self.until(online)

    def serve(self, *, devices: int, rounds: int) -> None:
        """Restart the aggregator: that many rounds more, each once `devices` are online."""
        self.processes.stop()
        with suppress(ConfigError), closing(self.journal()) as journal:
            rounds += journal.completed()
        settings = ["--set", f"round.min_devices={devices}", "--set", f"round.rounds={rounds}"]
        self.processes = Processes(self.folder)
        self.processes.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml", *settings])

    def journal(self) -> Journal:
        """What the aggregator has written, to read."""
        return Journal(self.folder / "state" / "journal.db", read_only=True)

    def until_closed(self, devices: set[str], first: int = 1, limit: float = BOOT_S) -> int:
        """Wait for a closed round, not before `first`, with an update of each of `devices`; its number."""
        closed: list[int] = []

        def complete(journal: Journal) -> bool:
            rounds = [row.number for row in journal.rounds() if row.phase == "closed" and row.number >= first]
            closed[:] = [n for n in rounds if {update.device for update in journal.updates(n)} >= devices]
            return bool(closed)

        self.until(complete, limit)
        return closed[0]


@contextmanager
def board_fleet(folder: Path, groups: str) -> Iterator[BoardFleet]:
    """The fleet of `groups`, provisioned; broker and aggregator run, no round starts before `serve`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_samples(folder / "samples.npz")
    port = free_port()
    (folder / "fleet.toml").write_text(MANIFEST.format(port=port, host=BROKER, groups=groups))
    broker = Provisioned(folder / "mosquitto", folder / "kits")
    broker.port = port
    fleet = BoardFleet(folder, broker, Processes(folder))
    try:
        fleet.edgestill("provision", "fleet.toml")
        broker.start()
        fleet.serve(devices=1000, rounds=1)
        yield fleet
    finally:
        for board in fleet.boards:
            board.power_cut()
        fleet.processes.stop()
        broker.stop()


def write_samples(path: Path) -> None:
    """Handwritten digits, as a board has them."""
    digits = load_digits()
    x = (digits.images[:600, None] / 8 - 1).astype(np.float32)
    np.savez(path, x=x, y=digits.target[:600])
