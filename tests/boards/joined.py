"""What holds on every board that has joined, and the figures that a board gives."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

from tests.boards.cards import boot_names
from tests.boards.emulated import EmulatedBoard
from tests.boards.fleet import BoardFleet
from tests.boards.roots import CACHE

#: Serial consoles and figures of the last run.
ARTIFACTS = CACHE.parent / "test-boards"
DOCTOR = "/opt/edgestill/bin/edgestill doctor --config /etc/edgestill/agent.toml"
CGROUP = "/sys/fs/cgroup/system.slice/edgestill-agent.service"


def check_joined(board: EmulatedBoard) -> None:
    """No failed unit, no restart, memory within the limit, a content doctor, and no key that others can read."""
    assert board.run("systemctl --failed --no-legend --plain") == ""
    assert board.run("systemctl show edgestill-agent -p NRestarts --value") == "0"
    peak, limit = unit_memory(board)
    assert peak < limit
    board.run(DOCTOR)
    board.run("sync")
    assert not [name for name in boot_names(board.card) if name.endswith((".key", ".pem"))]
    assert board.run("find /etc/edgestill -type f ! -perm 600") == ""
    assert board.run("find /etc/edgestill -type d ! -perm 700") == ""


def unit_memory(board: EmulatedBoard) -> tuple[int, int]:
    """The agent's unit with its children: peak and limit, in bytes."""
    peak, limit = board.run(f"cat {CGROUP}/memory.peak {CGROUP}/memory.max").split()
    return int(peak), int(limit)


def note_figures(fleet: BoardFleet, board: EmulatedBoard, round_number: int) -> None:
    """Add the board's line to figures.json; of the time, the emulation's and this machine's load are a part."""
    with closing(fleet.journal()) as journal:
        (opened,) = (row.opened for row in journal.rounds() if row.number == round_number)
        (update,) = (row for row in journal.updates(round_number) if row.device == board.name)
    status = board.run("cat /proc/$(systemctl show edgestill-agent -p MainPID --value)/status")
    (agent,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    children = re.findall(r"trained, loss [^,]*, peak memory (\d+) MB", board.console())
    figures = {
        "memory_mb": board.memory_mb,
        "root_used_mb": int(board.run("df --output=used -BM / | tail -n 1").strip("M ")),
        "online_s": round(board.online - board.powered_on),
        "job_to_update_s": round(update.received - opened),
        "agent_peak_mb": round(int(agent) / 1024),
        "child_peak_mb": max(int(peak) for peak in children),
        "unit_peak_mb": round(unit_memory(board)[0] / 2**20),
    }
    file = ARTIFACTS / "figures.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {board.name: figures}, indent=2) + "\n")


def keep_consoles(boards: list[EmulatedBoard]) -> None:
    """Copy what the boards have printed to ARTIFACTS, as plain text."""
    for board in boards:
        if board.serial.exists():
            (ARTIFACTS / f"{board.name}.log").write_text(board.console())


def fresh_artifacts() -> Path:
    """The folder without the files of the run before."""
    shutil.rmtree(ARTIFACTS, ignore_errors=True)
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    return ARTIFACTS
