"""Utilities of the benchmarks of whole fleets: a broker, file descriptors, CPU and memory figures."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

__all__ = ["Mosquitto", "allow_files", "cpu_seconds", "memory_mb", "peak_mb"]

START_S = 10.0


class Mosquitto:
    """A Mosquitto on a free loopback port with its default limits; a context manager that stops it by its pid."""

    def __init__(self, folder: Path, lines: tuple[str, ...] = ()) -> None:
        binary = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
        if binary is None:
            raise SystemExit("this benchmark needs Mosquitto; install it (apt install mosquitto)")
        self._binary, self._folder, self._lines = binary, folder, lines
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Mosquitto:
        self.port = _free_port()
        lines = [f"listener {self.port} 127.0.0.1", "allow_anonymous true", "user root", "persistence false"]
        conf = self._folder / "mosquitto.conf"
        conf.write_text("\n".join([*lines, *self._lines, ""]))
        with (self._folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen([self._binary, "-c", str(conf)], stdout=log, stderr=log)
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                time.sleep(0.02)
        self.__exit__()
        raise SystemExit(f"mosquitto does not start: {(self._folder / 'mosquitto.log').read_text()[-300:]}")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def allow_files(count: int) -> None:
    """Raise the limit of open files of this process and its children; the soft limit is 1024 on most systems."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SystemExit(f"{count} open files are needed, the system allows {hard}; see `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, in user and kernel mode."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """The current resident memory of a process."""
    return _status(pid, "VmRSS")


def peak_mb(pid: int) -> float:
    """The peak resident memory of a process."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0
