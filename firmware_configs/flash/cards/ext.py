"""ext4 file systems inside a file, read and written without mounting and without root, by debugfs of e2fsprogs.

debugfs reports errors only on stderr, below a line with its version, and always exits with 0. It works on a copy of an
image, never on the original, and e2fsck checks the result.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from core.errors import ConfigError
from firmware_configs.flash.cards.partitions import Partition
from wire.ids import digest_of

__all__ = ["Ext", "has_debugfs"]

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # Debian's location, not on every user's path
FAST_LINK = re.compile(r'^Fast link dest: "(.*)"$', re.MULTILINE)
FREE = re.compile(rb"^(Free blocks|Block size): +(\d+)$", re.MULTILINE)
FILE, LINK, FOLDER = "100", "120", "040"  # prefix of an entry's mode


def has_debugfs() -> bool:
    """Whether the programs are installed."""
    return shutil.which("debugfs", path=PATH) is not None


class Ext:
    """The ext4 file system at `partition` of the file `path`."""

    def __init__(self, path: Path, partition: Partition) -> None:
        if not has_debugfs():
            raise ConfigError("debugfs is not installed, which writes into ext4; run: sudo apt-get install e2fsprogs")
        if "?" in str(path):
            raise ConfigError(f"{path}: debugfs takes no '?' in a name; rename it")
        self.path, self._place = path, f"{path}?offset={partition.offset}"

    def names(self, folder: str = "") -> list[str]:
        """The entries of a folder, sorted; empty if there is no such folder."""
        return sorted(set(self._modes(folder)) - {".", "..", ""})

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        return self._ask(f"cat {_quoted(path)}") if self._mode(path) == FILE else None

    def link(self, path: str) -> str | None:
        """The target of a link; None if there is none."""
        if self._mode(path) != LINK:
            return None
        found = FAST_LINK.search((self._ask(f"stat {_quoted(path)}") or b"").decode(errors="replace"))
        return found[1] if found else (self._ask(f"cat {_quoted(path)}") or b"").decode(errors="replace")

    def files(self, folder: str) -> list[str]:
        """The names in a folder of large files."""
        return self.names(folder)

    def digest(self, path: str) -> str | None:
        """SHA-256 of a large file, in hex; None if there is none."""
        data = self.read(path)
        return None if data is None else digest_of(data)

    def free(self) -> int:
        """Bytes that are free; root may use all of them."""
        found = {name: int(number) for name, number in FREE.findall(self._ask("stats -h") or b"")}
        if len(found) != 2:
            raise ConfigError(f"{self.path}: debugfs cannot tell how much is free; is its ext4 damaged?")
        return found[b"Free blocks"] * found[b"Block size"]

    def put(self, folder: str, sources: Mapping[str, Path]) -> None:
        """Copy large files of this machine into a folder, by their new names; all of it is owned by root."""
        self._refuse_unclean()
        made, commands = "", []
        for part in PurePosixPath(folder).parts:
            made = f"{made}/{part}".lstrip("/")
            if self._mode(made) is None:
                commands += [f"cd {_quoted(str(PurePosixPath(made).parent))}", f"mkdir {part}"]
        commands.append(f"cd {_quoted(folder)}")
        for name, source in sources.items():
            commands += [f"rm {_quoted(f'{folder}/{name}')}"] if self._mode(f"{folder}/{name}") else []
            commands += [f'write "{source}" {name}', *_owned(f"{folder}/{name}", 0o644)]
        self._do(commands)
        self._check()

    def add(self, tree: Path) -> None:
        """Copy everything below the folder `tree` to the top, over files of the same name; all of it is owned by
        root."""
        self._refuse_unclean()
        self._do([command for path in sorted(tree.rglob("*")) for command in self._adding(path, tree)])
        self._check()

    def remove(self, path: str) -> None:
        """Remove a file, or a folder recursively."""
        self._do(list(self._removing(path)))

    def _adding(self, source: Path, tree: Path) -> Iterator[str]:
        path = source.relative_to(tree).as_posix()
        there = self._mode(path)
        yield f"cd {_quoted(str(PurePosixPath(path).parent))}"  # it creates entries in its current folder
        if source.is_dir() and not source.is_symlink():
            if there is None:
                yield f"mkdir {source.name}"
            elif there == LINK:
                raise ConfigError(f"{self.path}: {path} is a link, where a folder was expected")
            return
        if there is not None:
            yield f"rm {_quoted(path)}"
        if source.is_symlink():
            yield f"symlink {source.name} {os.readlink(source)}"
            return
        yield f'write "{source}" {source.name}'
        yield from _owned(path, source.stat().st_mode & 0o777)

    def _refuse_unclean(self) -> None:
        """Replaying the journal of a file system that was not unmounted would undo our changes."""
        if b"needs_recovery" in (self._ask("stats -h") or b""):
            raise ConfigError(
                f"{self.path}: its ext4 was not unmounted; run e2fsck on it, or use a new copy of its image"
            )

    def _removing(self, path: str) -> Iterator[str]:
        if self._mode(path) != FOLDER:
            yield f"rm {_quoted(path)}"
            return
        for name in self.names(path):
            yield from self._removing(f"{path}/{name}")
        yield f"rmdir {_quoted(path)}"

    def _mode(self, path: str) -> str | None:
        place = PurePosixPath(path)
        return self._modes(str(place.parent)).get(place.name)

    def _modes(self, folder: str) -> dict[str, str]:
        """The entries of a folder with their types, from lines such as `/19/100600/0/0/agent.toml/893/`."""
        said = (self._ask(f"ls -p {_quoted(folder)}") or b"").decode(errors="replace")
        parts = [line.split("/") for line in said.splitlines()]
        return {part[5]: part[2][:3] for part in parts if len(part) >= 7}

    def _ask(self, command: str) -> bytes | None:
        done = self._run("-R", command)
        return None if done.stderr.count(b"\n") > 1 else done.stdout

    def _do(self, commands: list[str]) -> None:
        with tempfile.NamedTemporaryFile("w", prefix="edgestill-", suffix=".debugfs") as script:
            script.write("".join(f"{command}\n" for command in commands))
            script.flush()
            said = self._run("-w", "-f", script.name).stderr.decode(errors="replace").splitlines()
        if said[1:]:
            raise ConfigError(f"{self.path}: debugfs: {' '.join(said[1].split())}")  # the first error causes the rest

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        program = shutil.which("debugfs", path=PATH)
        assert program is not None
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        command = [program, *arguments, self._place]
        return subprocess.run(command, capture_output=True, check=False, env=environment, stdin=subprocess.DEVNULL)

    def _check(self) -> None:
        program = shutil.which("e2fsck", path=PATH)
        if program is None:
            return
        done = subprocess.run([program, "-f", "-n", self._place], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigError(f"{self.path}: e2fsck finds errors in its ext4; use a new copy of its image")


def _owned(path: str, mode: int) -> list[str]:
    """Commands that give a file its mode, and to root."""
    settings = (f"mode 0{0o100000 | mode:o}", "uid 0", "gid 0")
    return [f"sif {_quoted(path)} {setting}" for setting in settings]


def _quoted(path: str) -> str:
    """An absolute path; names of kits and units contain nothing that debugfs would interpret."""
    return "/" if path in ("", ".") else f'"/{path}"'
