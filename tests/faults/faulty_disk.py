"""A disk that fails on demand: compiles `faulty_disk.c` and steers it."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

FIELDS = ("count", "from", "upto", "error", "torn", "failed")
FOREVER = 2**62


class FaultyDisk:
    """Everything below `root` that processes with `environment` write; nothing fails until `fail`."""

    def __init__(self, folder: Path, root: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("needs a C compiler for the disk that fails on demand")
        folder.mkdir(parents=True, exist_ok=True)
        library, control = folder / "faulty_disk.so", folder / "control"
        source = Path(__file__).with_name("faulty_disk.c")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        control.write_bytes(bytes(8 * len(FIELDS)))
        self._file = control.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 8 * len(FIELDS))
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAULTY_CONTROL": str(control),
            "FAULTY_ROOT": str(root.resolve()),
        }

    def fail(self, error: int, *, after: int = 0, calls: int = FOREVER, torn: bool = False) -> None:
        """Let `calls` calls in a row fail with this errno, after the next `after` ones."""
        start = self["count"] + after
        self._set("upto", 0)
        for name, value in (("failed", 0), ("error", error), ("torn", int(torn)), ("from", start)):
            self._set(name, value)
        self._set("upto", start + calls)

    def mend(self) -> None:
        """Let nothing fail any more."""
        self._set("upto", 0)

    def __getitem__(self, name: str) -> int:
        return struct.unpack_from("<q", self._map, 8 * FIELDS.index(name))[0]

    def _set(self, name: str, value: int) -> None:
        struct.pack_into("<q", self._map, 8 * FIELDS.index(name), value)

    def close(self) -> None:
        self._map.close()
        self._file.close()
