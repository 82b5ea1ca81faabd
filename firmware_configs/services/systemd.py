"""The units of systemd on this machine, or below another root, such as an image that is being built."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from core.files import write_atomic

__all__ = ["UNITS", "Systemd"]

UNITS = "/etc/systemd/system"
RUNNING = Path("/run/systemd/system")  # exists where systemd is process 1


@dataclass(frozen=True, slots=True)
class Systemd:
    """The folder of its units; `control` is whether the running systemd reads that folder."""

    units: Path
    control: bool

    @classmethod
    def below(cls, root: Path) -> Systemd:
        """The systemd of this machine for /, else the one that will run with this root."""
        here = root.resolve() == Path("/")
        return cls(Path(UNITS) if here else root / UNITS.lstrip("/"), here and RUNNING.is_dir())

    def path(self, name: str) -> Path:
        """Where the unit `name` is."""
        return self.units / name

    def write(self, name: str, text: str) -> None:
        """Write a unit; the running systemd knows it then."""
        try:
            self.units.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path(name), text)
        except OSError as error:
            raise _refused(self.path(name), error) from None
        if self.control:
            self._call("daemon-reload")

    def remove(self, name: str) -> None:
        """Stop a unit, start it at no boot any more, and remove it."""
        if self.control:
            self._call("disable", "--now", name)
        try:
            self.path(name).unlink()
        except OSError as error:
            raise _refused(self.path(name), error) from None
        if self.control:
            self._call("daemon-reload")

    def _call(self, *words: str) -> None:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip() or "no reason").splitlines()[-1]
            raise ConfigError(f"systemctl {' '.join(words)} failed: {said}")


def _refused(path: Path, error: OSError) -> ConfigError:
    hint = "; run this as root: sudo" if isinstance(error, PermissionError) else ""
    return ConfigError(f"{path}: {error.strerror}{hint}")
