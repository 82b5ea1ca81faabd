"""The examples for applications classify, and pick up a new model: Python here, JavaScript and C where they can be run.

JavaScript needs node, and npm with a package index; C a compiler and ONNX Runtime's headers, which Debian has from
trixie on: here they are used from a system that mmdebstrap makes, if it can.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge_agent.state.published import publish_model
from tests.edge_agent.predict.boards import images, leave_model

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "application"


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
    classifies_and_reloads([sys.executable, str(EXAMPLES / "python/classify.py"), str(board / "out")], board)


def test_python_tells_in_one_line_what_is_wrong(board: Path) -> None:
    script = str(EXAMPLES / "python/classify.py")
    for arguments in ([str(board / "absent"), "x.png"], [str(board / "out"), str(board / "out/current.json")], []):
        done = subprocess.run(
            [sys.executable, script, *arguments],
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
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("*** NO NODE ON THIS MACHINE: THE JAVASCRIPT EXAMPLE IS NOT RUN ***")
    folder = board / "javascript"
    shutil.copytree(EXAMPLES / "javascript", folder)
    npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(npm, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        pytest.skip(f"*** NPM CANNOT INSTALL: THE JAVASCRIPT EXAMPLE IS NOT RUN ***: {done.stderr[-300:]}")
    command = ["node", str(folder / "classify.js"), str(board / "out")]
    classifies_and_reloads(command, board)
    failed = subprocess.run([*command, "package.json"], capture_output=True, text=True, cwd=folder, check=False)
    assert (failed.returncode, failed.stderr.count("\n")) == (1, 1)


@pytest.mark.slow  # makes a Debian system with a compiler
def test_c_compiles_without_warnings_classifies_and_reloads(board: Path) -> None:
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("*** NO MMDEBSTRAP, OR NOT ROOT: THE C EXAMPLE IS NOT COMPILED ***")
    system = board / "trixie"
    packages = "--include=gcc,libc6-dev,libonnxruntime-dev"
    debian = ["mmdebstrap", "--variant=apt", "--format=directory", packages, "trixie", str(system)]
    made = subprocess.run(debian, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"*** MMDEBSTRAP FAILS: THE C EXAMPLE IS NOT COMPILED ***: {made.stderr[-300:]}")
    inside = system / "srv"
    shutil.copy(EXAMPLES / "c/classify.c", inside)
    for name in ("ant.ppm", "bee.ppm"):
        shutil.copy(board / name, inside)
    compiler = ["chroot", str(system), "cc", "-Wall", "-Wextra", "-Werror", "-O2", "-o", "/srv/classify"]
    done = subprocess.run([*compiler, "/srv/classify.c", "-lonnxruntime"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    publish(inside, 1)
    command = ["chroot", str(system), "/srv/classify", "/srv/out/current.onnx", "/srv/bee.ppm", "--watch"]
    with running(command, board) as process:
        assert process.stdout.readline().split() == ["/srv/bee.ppm", "bee", "0.930", "round", "1"]
        time.sleep(0.5)
        publish(inside, 2)
        assert process.stdout.readline().split() == ["/srv/bee.ppm", "bee", "0.930", "round", "2"]
