"""Boards with data of their own over a real broker: a growing folder, a table, a loader, labels and samples that come
later, and what the aggregator is told of them."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from aggregator.config.fleet import load_fleet_config
from aggregator.status import fleet_status
from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from core.errors import ConfigError
from tests.aggregator.running import Aggregator
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from tests.brokers import Broker
from tests.edge_agent.scripted import AGENT, ROOT
from wire.ids import AGGREGATOR
from wire.keys import public_key_hex, save_private_key
from wire.messages import Task

pytestmark = pytest.mark.broker

TASK = 'class_names = ["low", "middle", "high"]\nkind = "image"\nmean = 127.5\nstd = 127.5'
NAMES = ("low", "middle", "high")
LOADER = """
import csv
import numpy as np

def load(path):
    rows = list(csv.reader(open(path)))
    x = np.array([row[:64] for row in rows], np.float32).reshape(-1, 1, 8, 8)
    return x, [row[64] or None for row in rows]
"""


def pixels(label: int, number: int) -> np.ndarray:
    """An image of its class: a bright band, and noise that makes every image another."""
    image = np.random.default_rng([label, number]).integers(0, 90, (8, 8)).astype(np.uint8)
    image[3 * label : 3 * label + 2] += 150
    return image


def draw(folder: Path, name: str, label: int, number: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{number}.png"
    Image.fromarray(pixels(label, number)).save(path)
    then = time.time() - 10
    os.utime(path, (then, then))
    return path


def write_rows(path: Path, numbers: range, *, header: bool) -> None:
    """A table with an image in each row, and its label."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow([*(f"p{i}" for i in range(64)), "label"])
        for number in numbers:
            writer.writerow([*pixels(number % 3, number).ravel(), NAMES[number % 3]])
    then = time.time() - 10
    os.utime(path, (then, then))


class Boards:
    """A fleet of boards; every process is ended at the end."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self.broker = folder, broker
        self.processes: list[subprocess.Popen] = []
        self.aggregator: Aggregator | None = None

    def begin(self, devices: list[str], **tables: str) -> None:
        self.config = write_fleet(self.folder / "aggregator", self.broker.config, devices, **tables)
        self.aggregator = Aggregator(self.config)
        self.aggregator.start()

    def start(self, device: str, data: str, *, model: str = "", train: str = "", path: str = "") -> None:
        """An agent; `model` and `train` are lines of its tables, `path` a folder of packages that it may import."""
        folder = self.folder / device
        folder.mkdir(exist_ok=True)
        save_private_key(key_of(device), folder / "device.pem")
        (folder / "agent.toml").write_text(
            f'[agent]\nfleet = "{FLEET}"\ndevice = "{device}"\nstate_dir = "state"\n'
            f"[broker]\nport = {self.broker.port}\n"
            f'[keys]\nprivate = "device.pem"\naggregator = "{public_key_hex(key_of(AGGREGATOR).public_key())}"\n'
            f'[model]\nprototype = "mlp:fp32"\n{model}\n[data]\nrefresh_s = 1\n{data}\n[train]\n{train}\n'
        )
        with (folder / "agent.log").open("ab") as log:
            command = [sys.executable, "-c", AGENT, "run", "--config", str(folder / "agent.toml")]
            env = {**os.environ, "PYTHONPATH": f"{ROOT}:{self.folder}:{path}"}
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=env))

    def log(self, device: str) -> str:
        return (self.folder / device / "agent.log").read_text()

    def status(self) -> dict[str, Any]:
        try:
            return fleet_status(load_fleet_config(self.config, environ={}))
        except ConfigError:  # not started yet
            return {"rounds_completed": 0, "devices": []}

    def device(self, name: str) -> dict[str, Any]:
        return next((d for d in self.status()["devices"] if d["id"] == name), {"data": {}, "accepted": 0})

    def wait(self, what: Callable[[], object], seconds: float = 900) -> None:
        until = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < until, [
                self.status(),
                *(self.log(p.name)[-1500:] for p in self.folder.glob("pi-*")),
            ]
            assert all(process.poll() is None for process in self.processes)
            time.sleep(0.2)

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(120)
        if (
            self.aggregator is not None
            and self.aggregator.process is not None
            and self.aggregator.process.poll() is None
        ):
            self.aggregator.end()


@pytest.fixture
def boards(tmp_path: Path, broker: Broker) -> Iterator[Boards]:
    made = Boards(tmp_path, broker)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.slow  # rounds with training children of torch: a minute where the machine is idle
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
def test_a_folder_a_table_and_a_loader_learn_together_and_grow(boards: Boards) -> None:
    names = ["pi-folder", "pi-table", "pi-loader", "pi-late"]
    boards.begin(
        names, task=TASK, prototypes='!names = ["mlp:fp32"]', round="!rounds = 6\nmin_devices = 3\ndeadline_s = 120"
    )
    for number in range(30):
        draw(boards.folder / "pi-folder" / "pictures" / NAMES[number % 3], "first", number % 3, number)
    waiting = boards.folder / "pi-folder" / "pictures"
    for number in range(30, 36):
        draw(waiting, "unlabeled", number % 3, number)
    (waiting / "low" / "cut.png").write_bytes(b"\x89PNG")
    os.utime(waiting / "low" / "cut.png", (1e9, 1e9))
    boards.start("pi-folder", 'kind = "folder"\npath = "pictures"\nvalidation = 0.2')
    (boards.folder / "pi-table").mkdir()
    write_rows(boards.folder / "pi-table" / "rows.csv", range(100, 160), header=True)
    boards.start("pi-table", 'kind = "csv"\npath = "rows.csv"')
    (boards.folder / "greenhouse.py").write_text(LOADER)
    (boards.folder / "pi-loader").mkdir()
    write_rows(boards.folder / "pi-loader" / "own.csv", range(200, 260), header=False)
    boards.start("pi-loader", 'kind = "python"\nloader = "greenhouse:load"\npath = "own.csv"')
    boards.start("pi-late", 'kind = "folder"\npath = "pictures"')

    boards.wait(lambda: boards.status()["rounds_completed"] >= 1)
    late = boards.device("pi-late")
    assert late["data"]["waiting"].endswith("pi-late/pictures: 0 of 20; it is not there yet")
    assert (late["status"], late["accepted"]) == ("online", 0)
    assert "waiting for samples in" in boards.log("pi-late")
    boards.wait(lambda: (boards.folder / "pi-late" / "state" / "current.onnx").exists())  # it takes offered models
    told = boards.device("pi-folder")
    assert (told["data"]["unlabeled"], told["data"]["rejected"], told["data"]["waiting"]) == (6, 1, "")
    assert "cut.png: not a readable picture" in told["data"]["reason"]

    examples = told["examples"]
    for path in waiting.glob("unlabeled-*.png"):  # labels arrive
        Path(f"{path}.label").write_text(NAMES[int(path.stem.split("-")[1]) % 3])
    for number in range(24):
        draw(boards.folder / "pi-late" / "pictures" / NAMES[number % 2], "new", number % 2, 300 + number)
    boards.wait(lambda: boards.device("pi-folder")["data"]["unlabeled"] == 0)
    assert boards.device("pi-folder")["examples"] > examples
    boards.wait(lambda: boards.device("pi-late")["accepted"] >= 1 or boards.status()["done"])
    boards.wait(lambda: boards.status()["done"])

    status = boards.status()
    assert {d["id"]: d["accepted"] > 0 for d in status["devices"]} == dict.fromkeys(names, True)
    assert boards.device("pi-late")["data"]["lacks"] == ("high",)
    assert "no sample of 'high'" in boards.log("pi-late")
    model = Blobs(boards.folder / "aggregator" / "state" / "blobs").read(status["models"]["mlp:fp32"]["digest"])
    task = Task(class_names=NAMES, kind="image", mean=(127.5,), std=(127.5,))
    assert open_artifact(model)[0].task == task
    assert not any("Traceback" in boards.log(name) for name in names)


@pytest.mark.slow  # an agent that waits, and one round of training: 20 s where the machine is idle
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
def test_a_file_that_comes_late_or_damaged_does_not_end_the_agent(boards: Boards) -> None:
    boards.begin(["pi-0"], prototypes='!names = ["mlp:fp32"]', round="!rounds = 1\ndeadline_s = 120")
    samples = boards.folder / "pi-0" / "samples.npz"
    boards.start("pi-0", 'path = "samples.npz"')
    boards.wait(
        lambda: boards.device("pi-0")["data"].get("waiting", "").endswith("samples.npz: 0 of 1; it is not there yet")
    )
    samples.write_bytes(b"PK\x03\x04 cut short")
    boards.wait(lambda: "not a readable .npz" in boards.device("pi-0")["data"]["waiting"])
    assert boards.status()["rounds_completed"] == 0
    beside = samples.with_name("new.npz")
    y = np.arange(30) % 3
    np.savez(beside, x=np.stack([pixels(label, n) for n, label in enumerate(y)])[:, None], y=y)
    os.replace(beside, samples)
    boards.wait(lambda: boards.status()["rounds_completed"] == 1)
    assert boards.device("pi-0")["examples"] == 30
