"""A Ray cluster of two nodes in a network namespace of its own: Ray listens on all addresses of its machine.

    with RayCluster(folder) as cluster, cluster.inside():
        RayTasks(cluster.address)           # this thread and what it starts are in the namespace
        cluster.lose_a_node()

Needs root, `ip` (iproute2) and the extra `ray`; where one of them is missing the test is skipped, and says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAD, OTHER, PORT = "10.77.0.1", "10.77.0.2", 6379
START_S, TRIES = 60.0, 4
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


class RayCluster:
    """A head without processors of its own, and two nodes of one each; `ends` are the addresses of the namespace."""

    def __init__(self, folder: Path) -> None:
        ip = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
        for missing, what in (
            (ip is None, "`ip`"),
            (os.geteuid() != 0, "root"),
            (importlib.util.find_spec("ray") is None, "the extra 'ray'"),
        ):
            if missing:
                pytest.skip(f"*** WITHOUT {what} RAY IS NOT TESTED: IT NEEDS A NETWORK NAMESPACE OF ITS OWN ***")
        self._ip = str(ip)
        self.folder, self.name = folder, f"edgestill-ray-{os.getpid()}"
        self.address = f"{HEAD}:{PORT}"
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._sockets = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # the paths of Unix sockets are short

    def __enter__(self) -> RayCluster:
        self._run("netns", "add", self.name)
        try:
            self._inside("link", "set", "lo", "up")
            for address in (HEAD, OTHER):
                self._inside("addr", "add", f"{address}/32", "dev", "lo")
            self._start(HEAD, "--head", f"--port={PORT}", "--include-dashboard=false")
            self.start_other()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for address in list(self._nodes)[::-1]:
            self._end(address, signal.SIGTERM)
        self._run("netns", "delete", self.name)
        shutil.rmtree(self._sockets, ignore_errors=True)

    def start_other(self) -> None:
        """The second node, also again."""
        self._start(OTHER, f"--address={self.address}")

    def lose_a_node(self) -> None:
        """Kill the second node with all of its processes."""
        self._end(OTHER, signal.SIGKILL)

    def drivers(self) -> int:
        """The processes that have joined so far to have work done."""
        return len(list(Path(self._sockets).glob("session_*/logs/python-core-driver-*.log")))

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and the threads and processes that it starts meanwhile, are in the namespace."""
        with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{self.name}") as own:
            _enter(own.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def _start(self, address: str, *arguments: str) -> None:
        """A node waits 15 s for its own helpers, then gives up: on a busy machine it is started again."""
        for _ in range(TRIES):
            if self._try_start(address, *arguments):
                return
            self._end(address, signal.SIGKILL)
        pytest.fail(f"Ray does not start: {self._log(address).read_text(errors='replace')[-2000:]}")

    def _try_start(self, address: str, *arguments: str) -> bool:
        ray = Path(sys.executable).with_name("ray")
        command = [ray, "start", "--block", f"--node-ip-address={address}", "--num-cpus=1", "--disable-usage-stats"]
        command += ["--object-store-memory=80000000", *arguments]
        if "--head" in arguments:
            command.append(f"--temp-dir={self._sockets}")
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # its helpers compile for seconds
        log = self._log(address)
        with log.open("wb") as file, self.inside():
            node = subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)
        self._nodes[address] = node
        until = time.monotonic() + START_S
        while node.poll() is None and time.monotonic() < until:
            if "Ray runtime started" in log.read_text(errors="replace"):
                return True
            time.sleep(0.2)
        return False

    def _log(self, address: str) -> Path:
        return self.folder / f"ray-{address}.log"

    def _end(self, address: str, number: signal.Signals) -> None:
        node = self._nodes.pop(address, None)
        if node is None:
            return
        family = _family(node.pid)  # its workers are in groups of their own
        for pid in family if number == signal.SIGKILL else [node.pid]:
            _send(pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.wait(START_S)
        for pid in family:
            _send(pid, signal.SIGKILL)

    def _inside(self, *arguments: str) -> None:
        self._run("-n", self.name, *arguments)

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([self._ip, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"*** NO NETWORK NAMESPACE HERE, RAY IS NOT TESTED: {done.stderr.strip()} ***")


def _family(pid: int) -> list[int]:
    """A process, its children and theirs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if Path(f"/proc/{pid}").exists() else []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _enter(namespace: int) -> None:
    if LIBC.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
