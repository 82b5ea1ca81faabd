"""The board: what it is, and whether it has what an agent of the configured mode needs."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from core.processes.processor import import_fault
from edge_agent.host.telemetry import temperature_c
from firmware_configs.boards import PROFILE, Board, board_of_model, read_board
from firmware_configs.doctor.findings import Finding, finding

__all__ = ["Facts", "check_board", "look"]

ARCHITECTURES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "amd64", "amd64": "amd64"}
#: For models, updates and the logs of an agent, by its mode; and for packages that are still to be installed.
STATE_MB = {"full": 500, "light": 100}
PACKAGES_MB, TORCH_MB = 300, 1500
NEEDED = ("numpy", "onnxruntime", "paho")
KNOWN = (*NEEDED, "torch", "brevitas")
HOT_C = 75.0
#: Raspberry Pi's firmware boots with cgroup_disable=memory; `edgestill flash` adds the word that undoes it.
NO_CGROUP = (
    "the kernel does not limit the memory of units, so MemoryMax of the agent's has no effect; add cgroup_enable=memory"
    " to the kernel's command line (on a Raspberry Pi /boot/firmware/cmdline.txt) and boot again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Properties of a board."""

    model: str
    arch: str
    system: str
    memory_mb: int
    disk_free_mb: int
    python: tuple[int, int]
    systemd: bool
    clock_synchronized: bool
    temperature_c: float | None
    memory_cgroup: bool  # whether the kernel limits the memory of units
    packages: frozenset[str]  # installed ones of those an agent may need
    board: Board | None


def look(root: Path = Path("/"), kit: Path | None = None) -> Facts:
    """The properties of the board whose file system is at `root`; `kit` is the folder of its agent.toml."""
    model = _text(root / "proc/device-tree/model").strip("\0\n ")
    arch = ARCHITECTURES.get(platform.machine().lower(), platform.machine())
    names = [line for line in _text(root / "etc/os-release").splitlines() if line.startswith("PRETTY_NAME=")]
    memory = [line.split()[1] for line in _text(root / "proc/meminfo").splitlines() if line.startswith("MemTotal:")]
    return Facts(
        model=model,
        arch=arch,
        system=names[0].partition("=")[2].strip('"') if names else "unknown",
        memory_mb=int(memory[0]) // 1024 if memory else 0,
        disk_free_mb=shutil.disk_usage(root).free // 10**6,
        python=sys.version_info[:2],
        systemd=(root / "run/systemd/system").is_dir(),
        clock_synchronized=(root / "run/systemd/timesync/synchronized").exists(),
        temperature_c=temperature_c(root / "sys/class/thermal/thermal_zone0/temp"),
        memory_cgroup=_limits_memory(root / "sys/fs/cgroup"),
        packages=frozenset(name for name in KNOWN if importlib.util.find_spec(name) is not None),
        board=_of_kit(root / "etc/edgestill" if kit is None else kit) or board_of_model(model, arch),
    )


def _of_kit(folder: Path) -> Board | None:
    """The profile that came with the kit: one of the user's own."""
    try:
        return read_board(folder / PROFILE, json.loads((folder / "kit.json").read_bytes())["board"])
    except (OSError, ValueError, LookupError, TypeError, ConfigError):
        return None


def check_board(
    facts: Facts,
    mode: str | None = None,
    *,
    fault: Callable[[str], str] | None = None,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[Finding]:
    """The checks of a board that trains in `mode`, by default the one of its profile.

    `fault` tries to import a package, by default in a process of its own, and says why it cannot be; `waiting` is told
    what takes long.
    """
    board = facts.board
    yield finding(board is not None, "board", board.title if board else f"no profile for {facts.arch}")
    mode = mode or (board.mode if board else "full")
    needed = board.service_mb if board else 1000
    short = f"{facts.memory_mb} MB; the profile counts on {needed} for the agent alone, so lower train.memory_mb"
    yield finding(facts.memory_mb > needed, "memory", f"{facts.memory_mb} MB", short, "warning")
    wanted = _disk_mb(facts, mode)
    full = f"{facts.disk_free_mb} MB free; make room for {wanted}"
    yield finding(facts.disk_free_mb >= wanted, "disk", f"{facts.disk_free_mb} MB free", full)
    version = "{}.{}".format(*facts.python)
    yield finding(facts.python >= (3, 10), "python", version, f"{version}; 3.10 or newer is needed")
    yield from _packages(facts, mode, fault or (lambda name: import_fault(name, waiting)))
    yield finding(facts.systemd, "systemd", "runs", "does not run; the kit's unit needs it", "warning")
    if facts.systemd and not facts.memory_cgroup:
        yield Finding("warning", "memory limit", NO_CGROUP)
    late = "not synchronized yet; certificates and deadlines need the time"
    yield finding(facts.clock_synchronized, "clock", "synchronized", late, "warning")
    if facts.temperature_c is not None:
        degrees = f"{facts.temperature_c:.0f} degrees"
        yield finding(facts.temperature_c < HOT_C, "temperature", degrees, f"{degrees}; cool the board", "warning")


def _disk_mb(facts: Facts, mode: str) -> int:
    """Megabytes that an agent needs, with the packages that are still to be installed."""
    missing = PACKAGES_MB if set(NEEDED) - facts.packages else 0
    return STATE_MB[mode] + missing + (TORCH_MB if mode == "full" and "torch" not in facts.packages else 0)


def _packages(facts: Facts, mode: str, fault: Callable[[str], str]) -> Iterator[Finding]:
    """Whether the packages of this mode are installed, and whether this processor can run them."""
    missing = sorted(set(NEEDED) - facts.packages)
    yield finding(not missing, "packages", "all there", f"missing: {' '.join(missing)}; install edgestill again")
    if mode == "full":
        jetson = facts.board is not None and facts.board.torch == "jetson"
        where = "NVIDIA's wheels for JetPack" if jetson else "pip install 'edgestill[train]'"
        yield finding("torch" in facts.packages, "torch", "there", f"missing; {where}, or train in mode light")
    for name in (*NEEDED, *(("torch",) if mode == "full" else ())):
        if name in facts.packages and (why := fault(name)):
            yield Finding("failure", name, why)


def _limits_memory(cgroups: Path) -> bool:
    """Whether the kernel has the memory controller: of cgroups version 2, or of version 1."""
    return "memory" in _text(cgroups / "cgroup.controllers").split() or (cgroups / "memory").is_dir()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
