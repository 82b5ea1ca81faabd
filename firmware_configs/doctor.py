"""`edgestill doctor`, run on the board: identifies it, and reports what fits and what is missing.

A finding is ok, a warning (the agent runs, but not as well as it could) or a failure (it will not run).
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from core.errors import EdgestillError
from core.files import read_regular
from core.settings import replace
from edge_agent.config import AgentConfig, EnrolConfig, enrolled, read_agent_config
from edge_agent.enrolment import own_keys
from edge_agent.host.telemetry import temperature_c
from firmware_configs.boards import Board, board_of_model
from firmware_configs.identity.ca import MAX_PEM
from firmware_configs.identity.identities import RENEW_BEFORE, ends
from transport.config import TlsConfig
from transport.probe import speaks_mqtt5
from wire.enrolment import fingerprint, shown
from wire.keys import load_private_key

__all__ = ["Facts", "Finding", "check_board", "check_config", "look"]

Level = Literal["ok", "warning", "failure"]
ARCHITECTURES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "amd64", "amd64": "amd64"}
DISK_MB = 500  # of an agent, its models and an update; torch takes as much again
TORCH_MB = 1500
HOT_C = 75.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    what: str
    said: str


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
    packages: frozenset[str]  # installed ones of those an agent may need
    board: Board | None


def look(root: Path = Path("/")) -> Facts:
    """The properties of the board whose file system is at `root`."""
    model = _text(root / "proc/device-tree/model").strip("\0\n ")
    arch = ARCHITECTURES.get(platform.machine().lower(), platform.machine())
    names = [line for line in _text(root / "etc/os-release").splitlines() if line.startswith("PRETTY_NAME=")]
    memory = [line.split()[1] for line in _text(root / "proc/meminfo").splitlines() if line.startswith("MemTotal:")]
    optional = ("torch", "brevitas", "onnxruntime", "numpy", "paho")
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
        packages=frozenset(name for name in optional if importlib.util.find_spec(name) is not None),
        board=board_of_model(model, arch),
    )


def check_board(facts: Facts) -> Iterator[Finding]:
    """The checks of a board."""
    board = facts.board
    yield _finding(board is not None, "board", board.title if board else f"no profile for {facts.arch}")
    mode = board.mode if board else "full"
    needed = board.service_mb if board else 1000
    short = f"{facts.memory_mb} MB; the profile counts on {needed} for the agent alone, so lower train.memory_mb"
    yield _finding(facts.memory_mb > needed, "memory", f"{facts.memory_mb} MB", short, "warning")
    wanted = DISK_MB + (TORCH_MB if mode == "full" and "torch" not in facts.packages else 0)
    full = f"{facts.disk_free_mb} MB free; make room for {wanted}"
    yield _finding(facts.disk_free_mb >= wanted, "disk", f"{facts.disk_free_mb} MB free", full)
    version = "{}.{}".format(*facts.python)
    yield _finding(facts.python >= (3, 10), "python", version, f"{version}; 3.10 or newer is needed")
    missing = sorted({"onnxruntime", "numpy", "paho"} - facts.packages)
    yield _finding(not missing, "packages", "all there", f"missing: {' '.join(missing)}; install edgestill again")
    if mode == "full":
        where = "NVIDIA's wheels for JetPack" if board and board.torch == "jetson" else "pip install 'edgestill[train]'"
        yield _finding("torch" in facts.packages, "torch", "there", f"missing; {where}, or train in mode light")
    yield _finding(facts.systemd, "systemd", "runs", "does not run; the kit's unit needs it", "warning")
    late = "not synchronized yet; certificates and deadlines need the time"
    yield _finding(facts.clock_synchronized, "clock", "synchronized", late, "warning")
    if facts.temperature_c is not None:
        degrees = f"{facts.temperature_c:.0f} degrees"
        yield _finding(facts.temperature_c < HOT_C, "temperature", degrees, f"{degrees}; cool the board", "warning")


def check_config(path: Path) -> Iterator[Finding]:
    """Checks of an agent.toml: keys, samples and broker."""
    try:
        config = read_agent_config(path)
    except EdgestillError as error:
        yield Finding("failure", "config", str(error))
        return
    yield Finding("ok", "config", f"{config.device} of {config.fleet}, {config.prototype}")
    if config.enrol is not None and not enrolled(config.enrol):
        yield _not_enrolled(config.enrol)
    else:
        yield _tried("signing key", lambda: load_private_key(config.private_key) and "usable")
    yield _tried("aggregator's key", lambda: config.aggregator_key() and "usable")
    there = config.data.path.is_file()
    yield _finding(there, "samples", str(config.data.path), f"there is no file {config.data.path}")
    if config.enrol is not None and not enrolled(config.enrol):
        tls = TlsConfig(ca=config.enrol.ca, cert=config.enrol.cert, key=config.enrol.key)
        config = replace(config, broker=replace(config.broker, tls=tls))
    yield from _certificate(config)
    yield _broker(config)


def _not_enrolled(enrol: EnrolConfig) -> Finding:
    """The fingerprint for the operator to compare, once the agent has generated its keys."""
    if not (enrol.identity / "device.key").exists():
        return Finding("warning", "enrolment", "not asked for yet; start the agent")
    tls, signing = own_keys(enrol.identity)
    keys = shown(fingerprint(tls.public_key(), signing.public_key()))
    return Finding("warning", "enrolment", f"not approved yet: fingerprint {keys}; edgestill device approve")


def _certificate(config: AgentConfig) -> Iterator[Finding]:
    tls = config.broker.tls
    if tls is None:
        yield Finding("warning", "certificate", "the broker is reached without TLS")
    elif tls.cert is not None:
        left = ends(read_regular(tls.cert, MAX_PEM)) - datetime.now(timezone.utc)
        days = f"{left.days} days left"
        level: Level = "failure" if left.total_seconds() < 0 else "warning" if left < RENEW_BEFORE else "ok"
        yield Finding(level, "certificate", days if level == "ok" else f"{days}; edgestill provision --renew")


def _broker(config: AgentConfig) -> Finding:
    try:
        five = speaks_mqtt5(config.broker)
    except EdgestillError as error:
        return Finding("failure", "broker", str(error))
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        return Finding("failure", "broker", f"{config.broker}: {reason}")
    except OSError as error:
        return Finding("failure", "broker", f"{config.broker}: {error.strerror or error}")
    return Finding("ok", "broker", f"{config.broker} answers, MQTT {'5' if five else '3.1.1'}")


def _tried(what: str, use: Callable[[], Any]) -> Finding:
    try:
        return Finding("ok", what, str(use()))
    except EdgestillError as error:
        return Finding("failure", what, str(error))


def _finding(good: bool, what: str, said: str, otherwise: str | None = None, level: Level = "failure") -> Finding:
    return Finding("ok", what, said) if good else Finding(level, what, otherwise or said)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
