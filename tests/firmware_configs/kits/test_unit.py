"""The agent's unit is one that systemd takes, and has few rights."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from firmware_configs.boards import board, boards
from firmware_configs.kits.bootfiles import FIRSTBOOT, KIT, boot_files
from firmware_configs.kits.unit import CURRENT, MODEL_DIR, NAME, unit

pytestmark = pytest.mark.light
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(
    ANALYZE is None, reason="*** NO SYSTEMD-ANALYZE ON THIS MACHINE: UNITS ARE NOT CHECKED ***"
)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    return subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False, timeout=120)


def written(folder: Path, name: str, text: str, *programs: str) -> str:
    """The unit as a file, with programs in the place of those that only a board has."""
    for program in programs:
        assert program in text
        text = text.replace(program, "/bin/true")
    (folder / name).write_text(text)
    return str(folder / name)


@needs_systemd
@pytest.mark.parametrize("name", ["rpi-zero-2w", "jetson-orin-nano"])
def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path: Path, name: str) -> None:
    text = unit(board(name), data="/home/pi/samples.npz")
    path = written(tmp_path, NAME, text, f"{CURRENT}/bin/edgestill")
    verified = analyze("verify", path)
    assert (verified.returncode, verified.stderr) == (0, "")
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", analyze("security", "--offline=true", path).stdout)
    assert score
    assert float(score[1]) < 2  # measured: 1.5, and 1.7 with the devices of a GPU


@needs_systemd
def test_systemd_takes_the_unit_of_the_first_boot(tmp_path: Path) -> None:
    text = boot_files("jetson", device="orin-1", wifi=None, instance="0")[FIRSTBOOT].replace(KIT, "/opt/kit")
    verified = analyze("verify", written(tmp_path, FIRSTBOOT, text))
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(boards()))
def test_memory_is_that_of_the_board(name: str) -> None:
    assert f"MemoryMax={board(name).service_mb}M\n" in unit(board(name), data="/srv/x.npz")


def test_a_variant_with_less_memory_has_a_unit_with_less() -> None:
    pi = board("rpi-4")
    for train_mb, most in (
        (400, 400 + pi.service_mb - pi.train_mb),
        (pi.train_mb, pi.service_mb),
        (1799, pi.service_mb),
    ):
        assert f"MemoryMax={most}M\n" in unit(pi, data="/srv/x.npz", train_mb=train_mb)


def test_homes_are_hidden_unless_the_samples_lie_there() -> None:
    assert "ProtectHome=yes\n" in unit(board("rpi-4"), data="/srv/x.npz")
    assert "ProtectHome=read-only\n" in unit(board("rpi-4"), data="/home/pi/x.npz")


def test_the_agent_may_write_the_model_for_applications_and_nothing_else_outside_its_state() -> None:
    text = unit(board("rpi-4"), data="/srv/x.npz")
    assert [line for line in text.splitlines() if "ReadWritePaths" in line] == [f"ReadWritePaths=-{MODEL_DIR}"]
    assert "StateDirectoryMode=0700\n" in text


def test_a_board_with_a_gpu_sees_its_devices() -> None:
    assert "PrivateDevices" not in unit(board("jetson-orin-nano"), data="/srv/x.npz")
    assert "SupplementaryGroups=video render\n" in unit(board("jetson-orin-nano"), data="/srv/x.npz")
    assert "PrivateDevices=yes\n" in unit(board("rpi-4"), data="/srv/x.npz")
