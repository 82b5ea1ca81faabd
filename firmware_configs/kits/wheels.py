"""`kits/_wheels`: the wheels of all kits, one copy of each, by SHA-256; and the wheels of one kit, checked.

    kits/_wheels/SHA256/torch-2.7.1-cp311-cp311-manylinux_2_28_aarch64.whl
    kits/_wheels/resolved/KEY.txt     a lock that was resolved for a manifest: firmware_configs/kits/wheel_set.py

`kit.json` names each wheel of a kit with its SHA-256, so the kit's signature covers them. What is there and has its
hash is not fetched again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core.errors import ConfigError, SignatureError
from core.files import move, open_regular, write_atomic
from firmware_configs.kits.kit import Kit
from firmware_configs.kits.lock import Locked, lock_text
from firmware_configs.kits.own_wheel import Wheel
from firmware_configs.kits.resolve import Target, pip

__all__ = ["STORE", "WheelStore", "file_digest", "kit_wheels", "make_folder"]

STORE = "_wheels"
LARGE = ("torch", "onnxruntime", "scipy")  # fetched one by one, so that an interrupted run loses little
PIECE = 1 << 20


class WheelStore:
    """The folder `_wheels` of a folder of kits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._whole: set[str] = set()  # digests that were checked by this run

    def path(self, file: str, sha256: str) -> Path:
        """Where a wheel is, or will be."""
        return self.folder / sha256 / file

    def has(self, file: str, sha256: str) -> bool:
        """Whether the wheel is there, with its hash."""
        path = self.path(file, sha256)
        if sha256 not in self._whole and path.is_file() and file_digest(path) == sha256:
            self._whole.add(sha256)
        return sha256 in self._whole and path.is_file()

    def put(self, wheel: Wheel) -> Locked:
        """Keep a wheel that was made here."""
        made = Locked(name=_name(wheel), version=wheel.version, file=wheel.file, sha256=wheel.sha256)
        if not self.has(made.file, made.sha256):
            path = self.path(made.file, made.sha256)
            make_folder(path.parent)
            write_atomic(path, wheel.data)
        return made

    def fetch(self, wheels: Mapping[str, Locked], target: Target, source: Sequence[str] = ()) -> int:
        """Fetch those that are missing, by pip; returns their number. `source` are further options of pip."""
        missing = {name: wheel for name, wheel in wheels.items() if not self.has(wheel.file, wheel.sha256)}
        large = [[name] for name in missing if name in LARGE]
        small = [name for name in missing if name not in LARGE]
        for names in [*large, small]:
            if names:
                self._download({name: missing[name] for name in names}, target, source)
        return len(missing)

    def _download(self, wheels: Mapping[str, Locked], target: Target, source: Sequence[str]) -> None:
        make_folder(self.folder)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".fetch-") as folder:
            lock = Path(folder, "lock.txt")
            lock.write_text(lock_text(wheels))
            how = ["--no-deps", "--require-hashes", "--dest", folder, "--requirement", str(lock)]
            pip("download", *how, *target.options(), *source)
            for wheel in wheels.values():
                self._keep(Path(folder, wheel.file), wheel)

    def _keep(self, path: Path, wheel: Locked) -> None:
        if not path.is_file() or file_digest(path) != wheel.sha256:
            raise ConfigError(f"{wheel.file}: pip has fetched another file; make the lock again")
        place = self.path(wheel.file, wheel.sha256)
        make_folder(place.parent)
        move(path, place)


def kit_wheels(kit: Kit, kits: Path, families: Iterable[str] | None = None) -> dict[str, Path]:
    """Files of the kit's wheels by name, every hash checked; `families`: only what these OS families need."""
    wanted = None if families is None else set(families)
    found = {}
    for name, wheel in kit.wheels.items():
        if wanted is not None and not wanted & set(wheel.os):
            continue
        path = WheelStore(kits / STORE).path(name, wheel.sha256)
        if not path.is_file():
            raise ConfigError(
                f"kit {kit.device}: {path} is missing; run `edgestill provision` again, or copy {STORE}/ beside the kit"
            )
        if file_digest(path) != wheel.sha256:
            raise SignatureError(f"kit {kit.device}: {path} is not the wheel that was signed; remove it, and provision")
        found[name] = path
    return found


def make_folder(folder: Path) -> None:
    """Make a folder and those above it: whatever the umask is, nobody else can replace wheels in it."""
    for path in (*reversed(folder.parents), folder):
        path.mkdir(exist_ok=True, mode=0o755)


def file_digest(path: Path) -> str:
    """SHA-256 of a plain file, in hex; a large file is not held in memory."""
    digest = hashlib.sha256()
    try:
        with os.fdopen(open_regular(path, follow=False), "rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    return digest.hexdigest()


def _name(wheel: Wheel) -> str:
    return wheel.name.replace("_", "-").replace(".", "-").lower()
