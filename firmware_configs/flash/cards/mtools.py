"""FAT file systems inside a file, read and written without mounting and without root, by the programs of GNU mtools.

mtools is packaged by Debian, Fedora and Homebrew; pyfatfs depends on `fs`, which cannot be imported with a current
setuptools.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from core.errors import ConfigError
from firmware_configs.flash.cards.card import HOME, WHEELS
from firmware_configs.flash.cards.partitions import Partition
from wire.ids import digest_of

__all__ = ["Fat"]


class Fat:
    """The FAT file system at `partition` of the file `path`."""

    def __init__(self, path: Path, partition: Partition) -> None:
        if shutil.which("mcopy") is None:
            raise ConfigError("mtools is not installed, which writes into images; run: sudo apt-get install mtools")
        self.path, self.partition = path, partition
        self._home: dict[str, bytes] | None = None

    def names(self, folder: str = "") -> list[str]:
        """The entries of a folder, sorted; empty if there is no such folder."""
        if f"{folder}/".startswith(f"{HOME}/"):
            below = [PurePosixPath(path) for path in self._read_home() if path.startswith(f"{folder}/")]
            return sorted({path.relative_to(folder).parts[0] for path in below})
        return self._list(folder)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        if path.startswith(f"{HOME}/"):
            return self._read_home().get(path)
        done = self._try("mcopy", f"::{path}", "-")
        return done.stdout if done.returncode == 0 else None

    def link(self, path: str) -> str | None:
        """FAT has no links."""
        return None

    def _read_home(self) -> dict[str, bytes]:
        """The kits of our own folder, read at once: a program per file would take seconds."""
        if self._home is None:
            with tempfile.TemporaryDirectory(prefix="edgestill-") as folder:
                if wanted := [f"::{HOME}/{name}" for name in self._list(HOME) if name != WHEELS]:
                    self._must("mcopy", "-s", "-n", *wanted, folder)
                files = [path for path in Path(folder).rglob("*") if path.is_file()]
                self._home = {f"{HOME}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}
        return self._home

    def _list(self, folder: str) -> list[str]:
        done = self._try("mdir", "-b", "-a", f"::{folder}/")
        lines = done.stdout.decode(errors="replace").splitlines() if done.returncode == 0 else []
        return sorted({line.rstrip("/").rpartition("/")[2] for line in lines} - {"", "::"})

    def add(self, tree: Path) -> None:
        """Copy everything below the folder `tree` to the top, over files of the same name."""
        if children := sorted(str(child) for child in tree.iterdir()):
            self._home = None
            self._must("mcopy", "-s", "-n", "-o", "-Q", "-D", "o", "-D", "A", *children, "::/")

    def files(self, folder: str) -> list[str]:
        """The names in a folder of large files."""
        return self._list(folder)

    def digest(self, path: str) -> str | None:
        """SHA-256 of a large file, in hex; None if there is none."""
        done = self._try("mcopy", f"::{path}", "-")
        return digest_of(done.stdout) if done.returncode == 0 else None

    def free(self) -> int:
        """Bytes that are free, by the last line of a listing: `  529 498 112 bytes free`."""
        found = re.search(rb"([0-9 ,.]+) bytes free", self._try("mdir", "::").stdout)
        if found is None:
            raise ConfigError(f"{self.path}: mdir cannot tell how much is free; is its FAT file system damaged?")
        return int(re.sub(rb"[^0-9]", b"", found[1]))

    def put(self, folder: str, sources: Mapping[str, Path]) -> None:
        """Copy large files of this machine into a folder, by their new names."""
        above = ""
        for part in PurePosixPath(folder).parts:
            if part not in self._list(above):
                self._must("mmd", f"::{above}/{part}")
            above = f"{above}/{part}".lstrip("/")
        for name, source in sources.items():
            self._must("mcopy", "-n", "-o", "-Q", str(source), f"::{folder}/{name}")

    def remove(self, path: str) -> None:
        """Remove a file, or a folder recursively."""
        self._home = None
        self._must("mdeltree", f"::{path}")

    def _must(self, program: str, *arguments: str) -> None:
        done = self._try(program, *arguments)
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())
            raise ConfigError(f"{self.path}: {program}: {said or 'failed'}")

    def _try(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        # ignore ~/.mtoolsrc, read besides MTOOLSRC, and accept a partition that is not a whole number of tracks
        own = {"HOME": os.devnull, "MTOOLSRC": os.devnull, "MTOOLS_SKIP_CHECK": "1", "LC_ALL": "C.UTF-8"}
        environment = {**os.environ, **own}
        command = [program, "-i", f"{self.path}@@{self.partition.offset}", *arguments]
        return subprocess.run(command, capture_output=True, check=False, env=environment, stdin=subprocess.DEVNULL)
