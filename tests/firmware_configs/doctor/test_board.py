"""The doctor knows the board and names what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmware_configs.boards import FOLDER, board
from firmware_configs.doctor.board import Facts, check_board, look

pytestmark = pytest.mark.light
PI = Facts(
    model="Raspberry Pi 4 Model B Rev 1.4",
    arch="arm64",
    system="Debian GNU/Linux 12 (bookworm)",
    memory_mb=3800,
    disk_free_mb=20_000,
    python=(3, 11),
    systemd=True,
    clock_synchronized=True,
    temperature_c=50.0,
    memory_cgroup=True,
    packages=frozenset({"torch", "brevitas", "onnxruntime", "numpy", "paho"}),
    board=board("rpi-4"),
)


def levels(facts: Facts, mode: str | None = None) -> dict[str, str]:
    findings = check_board(facts, mode, fault=lambda _: "")
    return {finding.what: finding.level for finding in findings if finding.level != "ok"}


def test_a_board_is_read_from_its_own_files(tmp_path: Path) -> None:
    for name, text in {
        "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
        "proc/meminfo": "MemTotal:        8245504 kB\nMemFree: 1 kB\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        "sys/class/thermal/thermal_zone0/temp": "48300\n",
        "run/systemd/timesync/synchronized": "",
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "run/systemd/system").mkdir()
    facts = look(tmp_path)
    assert facts.board is board("rpi-5")
    assert (facts.memory_mb, facts.system, facts.temperature_c) == (8052, "Debian GNU/Linux 12 (bookworm)", 48.3)
    assert facts.systemd
    assert facts.clock_synchronized
    assert facts.memory_cgroup
    assert "numpy" in facts.packages


def test_a_profile_of_the_users_own_comes_with_the_kit(tmp_path: Path) -> None:
    kit = tmp_path / "etc/edgestill"
    kit.mkdir(parents=True)
    (kit / "board.toml").write_text((FOLDER / "rpi-5.toml").read_text().replace("Raspberry Pi 5", "Rock 5"))
    (kit / "kit.json").write_text('{"board": "rock-5"}')
    (tmp_path / "elsewhere").mkdir()
    for found in (look(tmp_path), look(tmp_path / "elsewhere", kit)):
        assert found.board is not None
        assert (found.board.name, found.board.title) == ("rock-5", "Rock 5")
    (kit / "board.toml").write_text("broken")
    shipped = look(tmp_path).board
    assert shipped is None or shipped.name.startswith("generic")


def test_a_folder_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    facts = look(tmp_path)
    assert (facts.model, facts.memory_mb, facts.systemd, facts.temperature_c) == ("", 0, False, None)
    assert not facts.memory_cgroup


def test_a_raspberry_pi_without_the_memory_cgroup_is_seen_with_either_version(tmp_path: Path) -> None:
    cgroups = tmp_path / "sys/fs/cgroup"
    cgroups.mkdir(parents=True)
    (cgroups / "cgroup.controllers").write_text("cpuset cpu io pids\n")
    assert not look(tmp_path).memory_cgroup
    (cgroups / "memory").mkdir()
    assert look(tmp_path).memory_cgroup


def test_nothing_is_said_against_a_good_board() -> None:
    assert levels(PI) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"board": None}, {"board": "failure"}),
        ({"memory_mb": 900}, {"memory": "warning"}),
        ({"disk_free_mb": 400}, {"disk": "failure"}),
        ({"python": (3, 9)}, {"python": "failure"}),
        ({"packages": PI.packages - {"torch"}}, {"torch": "failure"}),
        ({"packages": PI.packages - {"paho"}}, {"packages": "failure"}),
        ({"packages": PI.packages - {"torch"}, "board": board("rpi-zero-2w")}, {}),
        ({"systemd": False}, {"systemd": "warning"}),
        ({"memory_cgroup": False}, {"memory limit": "warning"}),
        ({"memory_cgroup": False, "systemd": False}, {"systemd": "warning"}),
        ({"clock_synchronized": False}, {"clock": "warning"}),
        ({"temperature_c": 82.0}, {"temperature": "warning"}),
    ],
)
def test_what_is_missing_is_named(change: dict[str, object], expected: dict[str, str]) -> None:
    assert levels(replace(PI, **change)) == expected


def test_the_mode_of_the_config_decides_what_is_needed() -> None:
    bare = replace(PI, packages=PI.packages - {"torch", "brevitas"}, disk_free_mb=200)
    assert levels(bare) == {"torch": "failure", "disk": "failure"}
    assert levels(bare, "light") == {}
    zero = replace(bare, board=board("rpi-zero-2w"))
    assert levels(zero) == {}
    assert levels(zero, "full") == {"torch": "failure", "disk": "failure"}


def test_packages_that_are_missing_need_room() -> None:
    new = replace(PI, packages=frozenset(), board=board("rpi-zero-2w"))
    assert levels(replace(new, disk_free_mb=399)) == {"disk": "failure", "packages": "failure"}
    assert levels(replace(new, disk_free_mb=400)) == {"packages": "failure"}


def test_a_package_that_this_processor_cannot_run_is_named() -> None:
    tried: list[str] = []

    def fault(name: str) -> str:
        tried.append(name)
        return "was built for another processor (illegal instruction)" if name == "numpy" else ""

    found = {finding.what: finding for finding in check_board(PI, "light", fault=fault)}
    assert (found["numpy"].level, found["packages"].level) == ("failure", "ok")
    assert "another processor" in found["numpy"].said
    assert tried == ["numpy", "onnxruntime", "paho"]  # torch is not imported where it is not used
