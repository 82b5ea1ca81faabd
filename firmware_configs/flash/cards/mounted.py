"""A mounted boot partition, or a mounted root file system: plain files, installed by renames.

    edgestill/TAG.new/    the kit, being copied; then renamed to edgestill/TAG, to which nothing refers yet
    edgestill/stage/N     the files that will replace others, in order
    edgestill/journal     {"puts": [[N, path], ...]}: from here on the new state is committed

A run interrupted before the journal is written has changed nothing that a board would use. One interrupted later is
finished when the card is next opened. If only one file is replaced, its rename is the commit, and there is no journal.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from core.crashpoints import reach
from core.errors import ConfigError
from core.files import read_regular, sync, write_atomic
from firmware_configs.flash.cards.card import BEFORE, HOME, JETSON_HOME, PLACES, Plan, Put, WheelPlan
from firmware_configs.kits.kit import MAX_FILE
from firmware_configs.kits.wheels import file_digest

__all__ = ["Mounted"]

MAX_JOURNAL = 64 * 1024


class _Puts(msgspec.Struct):
    puts: list[tuple[str, str]]


class Mounted:
    """The card below the folder `top`; opening it finishes an interrupted run."""

    def __init__(self, top: Path, *, recover: bool = True) -> None:
        self.top = top
        self.recovered = False
        for home in (HOME, JETSON_HOME) if recover else ():
            if os.path.lexists(top / home / "journal"):
                self._finish(home)
                self.recovered = True

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.top)

    def names(self, folder: str = "") -> list[str]:
        """The entries of a folder, sorted; empty if there is no such folder."""
        path = self._at(f"{folder}/any").parent  # the folder itself must not be a link out of the card
        return sorted(child.name for child in path.iterdir()) if path.is_dir() else []

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        file = self._at(path)
        if file.is_symlink() or not file.is_file():
            return None
        try:
            return read_regular(file, MAX_FILE, follow=False)
        except OSError as error:
            raise ConfigError(f"{self.name}: {path}: {error.strerror}") from None

    def link(self, path: str) -> str | None:
        """The target of a link; None if there is none."""
        file = self._at(path)
        return os.readlink(file) if file.is_symlink() else None

    def free(self) -> int:
        """Bytes that are free."""
        status = os.statvfs(self.top)
        return status.f_bavail * status.f_frsize

    def root_free(self) -> int | None:
        """The other partitions of a mounted card are not known."""
        return None

    def digest(self, path: str) -> str | None:
        """SHA-256 of a large file, in hex; None if there is none."""
        file = self._at(path)
        return file_digest(file) if file.is_file() and not file.is_symlink() else None

    def write(self, plan: Plan) -> None:
        """Execute the plan atomically, and verify the contents of the card."""
        home = plan.folder.rpartition("/")[0]
        self._tidy(home)
        if plan.wheels is not None:
            self._put_wheels(plan.wheels)
        self._copy_kit(plan)
        reach("flash-kit-copied")
        for path, data in plan.before.items():
            self._at(BEFORE).mkdir(parents=True, exist_ok=True)
            write_atomic(self._at(f"{BEFORE}/{path}"), data)
        for number, put in enumerate(plan.puts):
            self._stage(self._at(f"{home}/stage/{number}"), put)
        if plan.puts:
            sync(self._at(f"{home}/stage"))
        self._compare(plan, [f"{home}/stage/{number}" for number in range(len(plan.puts))])
        reach("flash-staged")
        if len(plan.puts) > 1:
            entries = [[str(number), put.path] for number, put in enumerate(plan.puts)]
            write_atomic(self._at(f"{home}/journal"), msgspec.json.encode({"puts": entries}))
            reach("flash-journal")
            self._finish(home)
        else:
            for put in plan.puts:
                self._move(f"{home}/stage/0", put.path)
        reach("flash-put")
        self._compare(plan, [put.path for put in plan.puts])
        for path in plan.old:
            _remove(self._at(path))
        self._tidy(home)

    def _finish(self, home: str) -> None:
        journal = self._at(f"{home}/journal")
        for number, path in self._journalled(home):
            self._move(f"{home}/stage/{number}", path)
            reach("flash-moved")
        journal.unlink()
        sync(journal.parent)

    def _journalled(self, home: str) -> list[tuple[str, str]]:
        """The remaining moves of an interrupted run. A journal is a file of the card, and untrusted."""
        name, advice = f"{self.name}: {home}/journal", "remove it, then flash the card again"
        try:
            puts = msgspec.json.decode(read_regular(self._at(f"{home}/journal"), MAX_JOURNAL, follow=False), type=_Puts)
        except OSError as error:
            raise ConfigError(f"{name}: {error.strerror}; {advice}") from None
        except (msgspec.MsgspecError, RecursionError):
            raise ConfigError(f"{name} is damaged, or not edgestill's; {advice}") from None
        for number, path in puts.puts:
            if not number.isdecimal() or path not in PLACES:
                raise ConfigError(f"{name} would put a file at {path[:80]!r}, which edgestill does not; {advice}")
        return puts.puts

    def _tidy(self, home: str) -> None:
        """Remove leftovers of an interrupted run: they contain keys."""
        for name in self.names(home):
            if name == "stage" or name.endswith(".new") or name.startswith(".journal"):
                _remove(self._at(f"{home}/{name}"))

    def _copy_kit(self, plan: Plan) -> None:
        target = self._at(plan.folder)
        if target.exists():
            return  # the plan has found it complete
        staging = self._at(f"{plan.folder}.new")
        for name, file in plan.files.items():
            self._fresh(staging / name, file.data, file.mode)
        for path in [staging, *staging.rglob("*")]:
            sync(path)
        reach("flash-kit-half")
        staging.rename(target)
        sync(target.parent)

    def _put_wheels(self, plan: WheelPlan) -> None:
        """Leave exactly the plan's wheels in their folder; one that is there stays, so a further run goes on."""
        for name in self.names(plan.folder):
            if name not in plan.wheels:
                _remove(self._at(f"{plan.folder}/{name}"))
        for name, wheel in plan.wheels.items():
            place, path = self._at(f"{plan.folder}/{name}"), f"{plan.folder}/{name}"
            if self.digest(path) == wheel.sha256:
                continue
            staging = self._at(f"{plan.folder}/{name}.part")
            staging.parent.mkdir(parents=True, exist_ok=True)
            _remove(staging)
            shutil.copyfile(wheel.path, staging)
            sync(staging)
            reach("flash-wheel")
            staging.replace(place)
            if self.digest(path) != wheel.sha256:
                raise ConfigError(f"{self.name}: {path} reads back differently from what was written; try another card")
        if plan.wheels:
            sync(self._at(f"{plan.folder}/any").parent)

    def _stage(self, path: Path, put: Put) -> None:
        path.unlink(missing_ok=True)
        if put.link is None:
            self._fresh(path, put.data, put.mode)
            sync(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(put.link)

    def _move(self, staged: str, path: str) -> None:
        source, target = self._at(staged), self._at(path)
        if not source.is_symlink() and not source.exists():
            return  # moved before the interruption
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        sync(target.parent)

    def _fresh(self, path: Path, data: bytes, mode: int = 0o644) -> None:
        """Write a file that nothing refers to yet."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)

    def _compare(self, plan: Plan, places: list[str]) -> None:
        """Read everything back, from the card and not from the page cache if possible."""
        for name, file in plan.files.items():
            self._same(f"{plan.folder}/{name}", file.data)
        for place, put in zip(places, plan.puts, strict=True):
            if put.link is None:
                self._same(place, put.data)
            elif self.link(place) != put.link:
                raise ConfigError(f"{self.name}: {place} is not the link that was written; try another card")

    def _same(self, path: str, data: bytes) -> None:
        file = self._at(path)
        with file.open("rb") as opened:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if opened.read() != data:
                raise ConfigError(f"{self.name}: {path} reads back differently from what was written; try another card")

    def _at(self, path: str) -> Path:
        """A path on the card; links must not lead to files of this machine."""
        folder = (self.top / path.lstrip("/")).parent
        if not folder.resolve().is_relative_to(self.top.resolve()):
            raise ConfigError(f"{self.name}: {path} leads out of the card by a link")
        return self.top / path.lstrip("/")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
