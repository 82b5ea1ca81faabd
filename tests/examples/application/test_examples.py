"""The examples for applications classify, and pick up a new model: Python here, JavaScript and C where they can run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge_agent.state.published import publish_model
from tests.edge_agent.predict.boards import images, leave_model
from tests.examples.application.programs import CLASSIFY, ROOT, c, javascript, python


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A folder with a published model in `out`, and pictures of the classes bee and ant."""
    publish(tmp_path, 1)
    for name, pixels in zip(("ant", "bee"), images(2), strict=True):
        (tmp_path / f"{name}.ppm").write_bytes(b"P6\n2 4\n255\n" + pixels.transpose(1, 2, 0).tobytes())
    return tmp_path


def publish(folder: Path, number: int) -> None:
    leave_model(folder / "state", round=number)
    publish_model(folder / "state", folder / "out")


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def classifies_and_reloads(command: Sequence[str], board: Path) -> None:
    """The example prints a line for the picture, and another one when a new model is published."""
    with running([*command, str(board / "bee.ppm"), "--watch"], board) as process:
        assert process.stdout.readline().split()[1:] == ["bee", "0.930", "round", "1"]
        time.sleep(0.5)  # it has begun to watch
        publish(board, 2)
        assert process.stdout.readline().split()[1:] == ["bee", "0.930", "round", "2"]


def test_python_classifies_and_reloads(board: Path) -> None:
    classifies_and_reloads(python(board, board / "out"), board)


def test_python_tells_in_one_line_what_is_wrong(board: Path) -> None:
    for arguments in ([str(board / "absent"), "x.png"], [str(board / "out"), str(board / "out/current.json")], []):
        done = subprocess.run(
            [sys.executable, str(CLASSIFY), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.startswith("classify.py: ")
    assert done.stderr == "classify.py: usage: classify.py FOLDER [--watch] PICTURE ...\n"


@pytest.mark.slow  # fetches a package of 200 MB
def test_javascript_classifies_and_reloads(board: Path) -> None:
    command = javascript(board, board / "out")
    classifies_and_reloads(command, board)
    failed = subprocess.run([*command, str(board / "out/current.json")], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr.count("\n")) == (1, 1)


@pytest.mark.slow  # makes a Debian system with a compiler
def test_c_compiles_without_warnings_classifies_and_reloads(board: Path) -> None:
    classifies_and_reloads(c(board, board / "out"), board)
