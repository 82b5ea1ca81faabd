"""Installs another version of edgestill beside the one that runs, tries it, keeps it or goes back; without edgestill.

    python3 -I upgrade.pyz board.json            what edgestill-upgrade.service runs, as root, while there is a request
    python3 -I upgrade.pyz board.json --reset    another kit was installed: what was under way is over

The agent, which is not root, leaves a bundle as `request`. Nothing of it is used before its signature by the fleet's
kit key was found right; that key is beside this program, where the agent cannot write. `status` is this program's
alone, readable by everybody; every change of it is one rename:

    installing    an environment is built beside the others
    trial         `current` names the new environment, and the agent was restarted
    committed     the agent has said that it is well: it has reached its broker and heard itself there
    returning     it has not: `current` is about to name the former environment again
    back          it does, and the former agent was started
    refused       nothing was changed: the bundle is not for this board, damaged, older, or cannot be installed

`current` is a symbolic link, replaced by a rename. A power cut at any moment leaves it on a whole environment; what was
under way goes on at the next start, because the request is removed last. A trial that was cut off is begun again, three
times at most.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from firmware_configs.on_board.bundles import RefusedError, copy_bundle, newer, open_bundle, openssl_verifies, unpack
from firmware_configs.on_board.environments import copy_environment, installed, python_of, run, version_in
from firmware_configs.on_board.fetch_wheels import FetchError, fetch, named_wheels

__all__ = ["FINAL", "Upgrade", "main"]

FINAL = ("committed", "back", "refused")
ENDS = 3  # of a new agent, before it is given up
STARTS = 3  # of a trial that was cut off
SPARE = 50_000_000  # bytes of a disk that are left
WHOLE = ".whole"  # in an environment that is complete
WRONG = (RefusedError, FetchError, OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError)


def reach(point: str) -> None:
    """A point at which a test ends this process as a power cut would."""
    if os.environ.get("EDGESTILL_CRASH_AT") == point:
        os.kill(os.getpid(), signal.SIGKILL)


class Upgrade:
    """One board; `board` is board.json: its paths, fleet and device."""

    def __init__(self, board: dict[str, Any]) -> None:
        self.board = board
        self.exchange, self.status_file = Path(board["exchange"]), Path(board["status"])
        self.current, self.environments = Path(board["current"]), Path(board["environments"])
        self.work = self.environments / ".work"
        self.state: dict[str, Any] = {"phase": "", "digest": "", "number": 0, "reason": "", **self._read_status()}

    def run(self) -> None:
        """Go on with what is under way, or take a request."""
        if self.state["phase"] == "returning":
            self._return(self.state["reason"])
        elif self.state["phase"] == "trial":
            self._try_again()
        else:
            self._take()
        self._remove(self.work)
        self._drop("request")
        self._drop("healthy")
        say(": ".join(filter(None, (self.state["phase"], self.state["reason"]))))

    def reset(self) -> None:
        """Another kit was installed, and its environment is the current one."""
        self._point(Path(self.board["first"]))
        if self.state["phase"] in ("installing", "trial", "returning"):
            self._put(phase="back", reason="another kit was installed")
        elif not self.status_file.exists():
            self._put()
        self._drop("request")

    # ---- a request

    def _take(self) -> None:
        self.environments.mkdir(parents=True, exist_ok=True)
        self._remove(self.work)
        with self._opened("request") as source:
            if source is None:
                return
            self.work.mkdir(mode=0o700)
            digest = copy_bundle(source, self.work / "bundle")
        reach("upgrade-taken")
        if digest == self.state["digest"] and self.state["phase"] in FINAL:
            return  # it was handled before the power was cut
        try:
            self._prepare(digest)
        except WRONG as error:
            self._put(phase="refused", digest=digest, reason=_line(error))
            reach("upgrade-refused")
            return
        reach("upgrade-trial-noted")
        self._try()

    def _prepare(self, digest: str) -> None:
        """Check the bundle and build its environment; the status is then that of a trial."""
        begun = self.state["phase"] == "installing" and self.state["digest"] == digest
        with (self.work / "bundle").open("rb") as file:
            facts = open_bundle(file, openssl_verifies(self.board["key"]))
            target = self._fitting(facts, self.state["number"] - begun)
            self._put(phase="installing", digest=digest, number=facts["number"], version=facts["version"], reason="")
            reach("upgrade-accepted")
            unpack(file, facts["wheels"], self.work / "wheels")
        former, new = self.current.resolve(), self.environments / digest[:16]
        if not (new / WHOLE).exists():
            self._build(former, new, facts, target)
        reach("upgrade-built")
        self._put(phase="trial", former=str(former), environment=str(new), starts=0)

    def _fitting(self, facts: dict[str, Any], before: int) -> dict[str, Any]:
        """The bundle's part for this board; `before` is the number of the last bundle that was accepted."""
        board, former = self.board, self.current.resolve()
        if facts["fleet"] != board["fleet"]:
            raise RefusedError(f"it is for fleet {facts['fleet']}, this board is of {board['fleet']}")
        if facts["number"] <= before:
            raise RefusedError("it is older than the last bundle that this board accepted")
        runs = version_in(former)
        if not facts["force"] and not newer(facts["version"], runs):
            raise RefusedError(f"it has version {facts['version']}, this board {runs}; --force installs older ones")
        mine = [target for target in facts["targets"] if board["device"] in target["devices"]]
        if not mine:
            raise RefusedError(f"it is not for {board['device']}")
        here = platform.machine(), python_of(former)
        for target in mine:
            if (target["machine"], target["python"]) == here:
                return dict(target)
        known = ", ".join(f"{target['machine']} with Python {target['python']}" for target in mine)
        raise RefusedError(f"it is for {known}; this board is {here[0]} with Python {here[1]}")

    def _build(self, former: Path, new: Path, facts: dict[str, Any], target: dict[str, Any]) -> None:
        self._remove(new)
        free = shutil.disk_usage(self.environments).free
        if free < target["unpacked"] + SPARE:
            raise RefusedError(f"{free // 10**6} MB are free, and it takes {(target['unpacked'] + SPARE) // 10**6} MB")
        say(f"installing {facts['version']} beside {former}")
        copy_environment(former, new)
        python, lock = new / "bin/python", self.work / "lock.txt"
        lock.write_text(target["lock"])
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install"]
        sources = self._sources(facts, target, new)
        run([*pip, "--no-deps", "--require-hashes", *sources, "--requirement", str(lock)], PIP_NO_COMPILE="no")
        run([str(python), "-I", "-m", "edge_agent.precompile", self.board["config"]])
        run(["sync", "-f", str(new)])  # all files of it at once; each on its own takes minutes on a card
        reach("upgrade-installed")
        _write(new / WHOLE, b"")

    def _sources(self, facts: dict[str, Any], target: dict[str, Any], new: Path) -> list[str]:
        """pip's options for where wheels come from; those of the fleet's machine are fetched first."""
        carried, fetched = self.work / "wheels", self.work / "fetched"
        found = ["--find-links", str(carried)]
        if target["fetch"]:
            fetched.mkdir()
            there, ca = installed(new), Path(self.board["ca"])
            for wheel in named_wheels(target["lock"], {"wheels": {**target["others"], **facts["wheels"]}}):
                if (wheel.name, wheel.version) not in there and not wheel.is_at(carried / wheel.file):
                    fetch(target["fetch"], wheel, fetched, ca if ca.exists() else None)
            found += ["--find-links", str(fetched)]
        if target["network"]:
            return [*found, "--only-binary=:all:", *(["--extra-index-url", target["index"]] if target["index"] else [])]
        return [*found, "--no-index"]

    # ---- the trial

    def _try(self) -> None:
        self._drop("healthy")
        self._point(Path(self.state["environment"]))
        reach("upgrade-switched")
        self._restart()
        reach("upgrade-restarted")
        reason = self._watch()
        if reason:
            self._return(reason)
            return
        reach("upgrade-well")
        self._put(phase="committed", reason="")
        reach("upgrade-committed")
        for path in self.environments.iterdir():
            if str(path) not in (self.state["former"], self.state["environment"]):
                self._remove(path)

    def _try_again(self) -> None:
        """The power was cut during the trial."""
        starts = self.state.get("starts", 0) + 1
        if starts > STARTS:
            self._return(f"its trial was cut off {STARTS} times")
            return
        self._put(starts=starts)
        self._try()

    def _watch(self) -> str:
        """Wait until the new agent is well; why it is not, or nothing."""
        until, ends, last = time.monotonic() + self.board["trial_s"], 0, self._ends()
        while time.monotonic() < until:
            if self._healthy():
                return ""
            now = self._ends()  # from 0 again with a start by hand, such as ours
            ends, last = ends + max(now - last, 0), now
            if ends >= ENDS:
                return f"the new agent has ended {ENDS} times"
            time.sleep(self.board["look_s"])
        return f"the new agent was not well within {self.board['trial_s']:g} s: {self._show('StatusText') or 'silent'}"

    def _healthy(self) -> bool:
        with self._opened("healthy") as file:
            return file is not None and file.read(100) == str(self.state["number"]).encode()

    def _return(self, reason: str) -> None:
        self._put(phase="returning", reason=reason[:200])
        reach("upgrade-returning")
        self._point(Path(self.state["former"]))
        reach("upgrade-switched-back")
        self._restart()
        self._remove(Path(self.state["environment"]))
        self._put(phase="back")
        reach("upgrade-back")

    def _point(self, environment: Path) -> None:
        """Make `current` name this environment."""
        beside = self.current.with_name(f".{self.current.name}.new")
        beside.unlink(missing_ok=True)
        beside.symlink_to(environment)
        os.replace(beside, self.current)
        _sync(self.current.parent)

    def _restart(self) -> None:
        command = ["systemctl", "restart", "--no-block", self.board["unit"]]
        subprocess.run(command, capture_output=True, check=False)

    def _show(self, what: str) -> str:
        command = ["systemctl", "show", "--property", what, "--value", self.board["unit"]]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def _ends(self) -> int:
        """How often systemd has started the agent anew by itself."""
        found = self._show("NRestarts")
        return int(found) if found.isdecimal() else 0

    # ---- files

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes] | None]:
        """A file of the exchange, whose folder is the agent's: no link is followed, only a plain file is read."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with contextlib.ExitStack() as opened:
            try:
                folder = os.open(self.exchange, flags | os.O_DIRECTORY)
                opened.callback(os.close, folder)
                file = opened.enter_context(os.fdopen(os.open(name, flags, dir_fd=folder), "rb"))
            except OSError:
                yield None
                return
            yield file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None

    def _drop(self, name: str) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            folder = os.open(self.exchange, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            opened.callback(os.close, folder)
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)

    def _remove(self, path: Path) -> None:
        """An environment or the work folder, never anything elsewhere: that of the kit stays."""
        if path.parent == self.environments:
            shutil.rmtree(path, ignore_errors=True)

    def _read_status(self) -> dict[str, Any]:
        try:
            found = json.loads(self.status_file.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _put(self, **changes: Any) -> None:
        self.state = {**self.state, **changes}
        self.status_file.parent.mkdir(parents=True, exist_ok=True)
        _write(self.status_file, json.dumps(self.state).encode())


def say(text: str) -> None:
    """A line of the log."""
    sys.stdout.write(f"edgestill: {text}\n")
    sys.stdout.flush()


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def main(argv: list[str]) -> int:
    """Go on, or reset."""
    parser = argparse.ArgumentParser()
    parser.add_argument("board", type=Path)
    parser.add_argument("--reset", action="store_true")
    given = parser.parse_args(argv)
    upgrade = Upgrade(json.loads(given.board.read_bytes()))
    (upgrade.reset if given.reset else upgrade.run)()
    return 0
