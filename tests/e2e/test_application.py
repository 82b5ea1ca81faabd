"""The whole of a board's work, over Mosquitto: samples of every kind in, ten rounds, and applications that follow.

Seven boards: a folder whose labels arrive in round 3, a table, a loader, a folder that is empty at first, one that
trains on the pretend accelerator, one without torch, and one with three applications that classify with every new
model: the examples in Python, JavaScript and C.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from tests.brokers import Broker
from tests.e2e.test_board_data import LOADER, NAMES, TASK, Boards, boards, draw, pixels, write_rows
from tests.edge_agent.scripted import ROOT
from tests.examples.application.programs import PROGRAMS

__all__ = ["boards"]

pytestmark = [pytest.mark.broker, pytest.mark.slow]  # ten rounds of six training children: minutes
ROUNDS = 10


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    from tests.brokers import Mosquitto

    with Mosquitto(tmp_path / "mosquitto") as started:
        yield started


def first_graph(path: Path) -> None:
    """The prototype as ONNX, as a kit has it."""
    model = build(
        PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 8, 8), 3, 8), generator=torch.Generator().manual_seed(3)
    )
    example = model.example_input(2, generator=torch.Generator().manual_seed(0))
    path.write_bytes(export_onnx(model.eval(), example).data)


def fill(folder: Path, first: int, count: int) -> None:
    for number in range(count):
        draw(folder / NAMES[number % 3], "picture", number % 3, first + number)


def begin(boards: Boards) -> None:
    """All boards, with what they have at first."""
    folder = boards.folder
    fill(folder / "pi-folder" / "pictures", 0, 30)
    for number in range(30, 60):
        draw(folder / "pi-folder" / "pictures", "unlabeled", number % 3, number)
    for name in ("pi-table", "pi-loader", "pi-light"):
        (folder / name).mkdir()
    write_rows(folder / "pi-table" / "rows.csv", range(100, 160), header=True)
    (folder / "greenhouse.py").write_text(LOADER)
    write_rows(folder / "pi-loader" / "own.csv", range(200, 260), header=False)
    for number, name in enumerate(("pi-gpu", "pi-light", "pi-app")):
        fill(folder / name / "pictures", 400 + 100 * number, 30)
    first_graph(folder / "pi-light" / "graph.onnx")
    # in a process of its own: the device would be registered here, and autograd's threads for it break later forks
    code = "import sys; from pathlib import Path; from tests import accelerator; accelerator.install(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, folder / "packages"], check=True, cwd=ROOT)

    pictures = 'kind = "folder"\npath = "pictures"'
    boards.start("pi-folder", f"{pictures}\nvalidation = 0.2")
    boards.start("pi-table", 'kind = "csv"\npath = "rows.csv"')
    boards.start("pi-loader", 'kind = "python"\nloader = "greenhouse:load"\npath = "own.csv"')
    boards.start("pi-late", pictures)
    boards.start("pi-gpu", pictures, train='device = "acc"', path=str(folder / "packages"))
    boards.start("pi-light", pictures, model='graph = "graph.onnx"', train='mode = "light"')
    boards.start("pi-app", pictures, model=f'publish = "{folder / "published"}"\nraw_input = true')


def applications(folder: Path) -> dict[str, list[str]]:
    """The commands of the examples, which follow what pi-app publishes; those that cannot run here are warned of."""
    picture = folder / "new.pgm"
    Image.fromarray(pixels(1, 999)).save(picture)
    commands = {}
    for program in PROGRAMS:
        try:
            commands[program.__name__] = [*program(folder, folder / "published"), str(picture), "--watch"]
        except pytest.skip.Exception as skipped:
            warnings.warn(str(skipped), stacklevel=2)
    return commands


def follow(boards: Boards, commands: dict[str, list[str]]) -> None:
    """Start the applications, and wait until each has classified with a first model."""
    boards.wait(lambda: (boards.folder / "published" / "current.json").exists())
    for name, command in commands.items():
        with (boards.folder / f"{name}.out").open("wb") as out:
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            boards.processes.append(subprocess.Popen(command, stdout=out, env=env))
    boards.wait(lambda: all(answers(boards, name) for name in commands))


def answers(boards: Boards, name: str) -> list[tuple[str, int]]:
    """The class and the round of each line that an application has printed."""
    lines = (boards.folder / f"{name}.out").read_text().splitlines(keepends=True)
    found = [re.fullmatch(r".*/new\.pgm (\w+) \d\.\d{3} round (\d+)\n", line) for line in lines]
    assert all(found), (name, lines)
    return [(match[1], int(match[2])) for match in found if match]


def test_boards_of_every_kind_learn_for_ten_rounds_and_applications_follow(boards: Boards) -> None:
    commands = applications(boards.folder)
    names = ["pi-folder", "pi-table", "pi-loader", "pi-late", "pi-gpu", "pi-light", "pi-app"]
    rounds = f"!rounds = {ROUNDS}\nmin_devices = 6\ndeadline_s = 300"
    boards.begin(names, task=TASK, prototypes='!names = ["mlp:fp32"]', round=rounds)
    begin(boards)
    follow(boards, commands)

    boards.wait(lambda: boards.status()["rounds_completed"] >= 2)
    assert boards.device("pi-late")["data"]["waiting"].endswith("pi-late/pictures: 0 of 20; it is not there yet")
    pictures = boards.folder / "pi-folder" / "pictures"
    assert boards.device("pi-folder")["data"]["unlabeled"] == 30
    for path in pictures.glob("unlabeled-*.png"):
        Path(f"{path}.label").write_text(NAMES[int(path.stem.split("-")[1]) % 3])
    fill(boards.folder / "pi-late" / "pictures", 300, 30)
    boards.wait(lambda: boards.status()["done"], 3000)

    status = boards.status()
    assert status["rounds_completed"] == ROUNDS
    accepted = {device["id"]: device["accepted"] for device in status["devices"]}
    assert all(accepted[name] == ROUNDS for name in names if name != "pi-late"), accepted
    assert 0 < accepted["pi-late"] < ROUNDS
    assert boards.device("pi-folder")["data"]["unlabeled"] == 0
    assert boards.device("pi-gpu")["compute"].startswith("acc")
    for name in names:
        assert "Traceback" not in boards.log(name), name
        assert (boards.folder / name / "state" / "current.onnx").exists(), name
    for program in commands:
        boards.wait(lambda name=program: answers(boards, name)[-1] == ("middle", ROUNDS))
        seen = [number for _, number in answers(boards, program)]
        assert seen[0] < ROUNDS // 2, (program, seen)
        assert len(set(seen)) >= ROUNDS // 2, (program, seen)
        assert seen == sorted(seen), (program, seen)
