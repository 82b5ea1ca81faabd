"""What boards run, as aarch64 code under qemu-user, without a boot: installed by a kit's install.sh, equal to x86's.

Marked with the boots, because it needs the same root, which takes minutes to build.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.boards import sums
from tests.boards.chroots import LIMIT_S, arm_root, chroot, chroot_command
from tests.boards.fleet import BoardFleet, board_fleet
from tests.boards.roots import needs_qemu

pytestmark = [needs_qemu, pytest.mark.slow, pytest.mark.boards, pytest.mark.broker]
ROOT = Path(__file__).resolve().parents[2]
GROUPS = """
[[group]]
name = "light"
board = "rpi-zero-2w"
devices = ["light"]
os = ["cloud-init"]
prototype = "cnn:w1"
[[group]]
name = "full"
board = "rpi-4"
devices = ["full"]
os = ["cloud-init"]
prototype = "cnn:w1"
"""
#: Test files that need nothing but what a full board has, and pytest.
TESTS = (
    *("tests/wire", "tests/quant/test_delta.py", "tests/quant/test_float16.py", "tests/quant/test_precision.py"),
    *("tests/quant/test_binary.py", "tests/quant/test_brevitas_layers.py", "tests/quant/test_layers.py"),
    *("tests/quant/test_pack.py", "tests/quant/onnx/test_session.py", "tests/quant/onnx/test_weights.py"),
    *("tests/quant/onnx/integers/test_lowbit.py", "tests/edge_agent/light", "tests/edge_agent/training/test_sgd.py"),
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardFleet]:
    with board_fleet(tmp_path_factory.mktemp("fleet"), GROUPS) as fleet:
        yield fleet


def installed(fleet: BoardFleet, device: str, folder: Path) -> Iterator[Path]:
    """A root in which the kit of `device` was installed."""
    with arm_root("trixie", folder) as root:
        fleet.edgestill("kit", "export", f"kits/{device}", "--to", root / "kit")
        said = chroot(root, "/bin/sh", "/kit/install.sh", EDGESTILL_ROOT="/")
        assert "edgestill: installed below /" in said
        yield root


@pytest.fixture(scope="module")
def full(fleet: BoardFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with torch."""
    yield from installed(fleet, "full", tmp_path_factory.mktemp("full"))


def complete_a_round(fleet: BoardFleet, device: str, root: Path) -> None:
    """The agent that was installed joins over TLS, and a round closes with its update."""
    shutil.copy(fleet.folder / "samples.npz", root / "var/lib/edgestill/samples.npz")
    agent = ["/opt/edgestill/bin/edgestill", "agent", "run", "--config", "/etc/edgestill/agent.toml"]
    fleet.serve(devices=1, rounds=1)
    with (fleet.folder / f"{device}.log").open("wb") as log:
        command = chroot_command(root, *agent, "--set", "broker.host=127.0.0.1")
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        fleet.until_closed({device}, limit=LIMIT_S)
    finally:
        process.terminate()
        process.wait(60)


def test_a_light_kit_installs_and_its_agent_completes_a_round(fleet: BoardFleet, tmp_path: Path) -> None:
    for root in installed(fleet, "light", tmp_path):
        complete_a_round(fleet, "light", root)
        assert not (root / "opt/edgestill/lib/python3.13/site-packages/torch").exists()


def test_a_full_kit_trains_with_straight_through_estimators_as_aarch64_code(fleet: BoardFleet, full: Path) -> None:
    complete_a_round(fleet, "full", full)
    assert (full / "var/lib/edgestill/current.onnx").exists()


def test_bytes_equal_those_of_this_machine_and_logits_differ_in_the_last_place_at_most(
    full: Path, tmp_path: Path
) -> None:
    """Deltas, packed levels at every precision, a light board's update; Brevitas' layers and ONNX graphs.

    A scale or a mean of a torch layer may be the next float16: torch sums in another order on another processor.
    """
    there = full / "sums"
    there.mkdir()
    here = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, sums.__file__, "make", str(there)], check=True, env=here)
    shutil.copy(sums.__file__, there / "sums.py")
    for what in ("light", "full"):
        subprocess.run([sys.executable, sums.__file__, what, str(there), str(tmp_path / what)], check=True, env=here)
        chroot(full, "/opt/edgestill/bin/python", "/sums/sums.py", what, "/sums", f"/sums/arm-{what}")
        digests = json.loads((tmp_path / f"{what}.json").read_text())
        assert json.loads((there / f"arm-{what}.json").read_text()) == digests
        with closing(np.load(tmp_path / f"{what}.npz")) as ours, closing(np.load(there / f"arm-{what}.npz")) as arms:
            assert sorted(ours) == sorted(arms)
            for name in ours:
                near = {"rtol": 2**-10, "atol": 2**-24} if ours[name].dtype == np.float16 else {"rtol": 0, "atol": 1e-6}
                np.testing.assert_allclose(arms[name], ours[name], err_msg=name, **near)


def test_unit_tests_of_what_boards_run_pass_as_aarch64_code(full: Path, tmp_path: Path) -> None:
    wheels = full / "test-wheels"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "--python-version", "3.13"]
    platform = ["--platform", "manylinux_2_28_aarch64", "--platform", "any", "--implementation", "cp"]
    subprocess.run([*pip, *platform, "--dest", str(wheels), "pytest", "hypothesis"], check=True)
    python = "/opt/edgestill/bin/python"
    chroot(full, "/bin/sh", "-c", f"{python} -m pip install -q --no-index --find-links /test-wheels pytest hypothesis")
    checkout = full / "checkout"
    checkout.mkdir()
    for name in ("tests", "pyproject.toml"):
        subprocess.run(["cp", "-a", "--parents", name, str(checkout)], check=True, cwd=ROOT)
    command = f"cd /checkout && {python} -m pytest -q -p no:cacheprovider {' '.join(TESTS)}"
    said = chroot(full, "/bin/sh", "-c", command, EDGESTILL_TEST_SLOWER="20")
    assert " passed" in said.splitlines()[-1]
