"""Which wheels a board gets: the lock of its architecture, Python and mode, edgestill's own, and the user's.

What pip is asked for (torch of a Jetson, `[provision] packages`) is asked once: the answer is kept in
`_wheels/resolved/KEY.txt`, and KEY depends on everything that was asked, so that a further run changes no kit. Remove
that folder to look for newer versions.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath

import msgspec
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from core.errors import ConfigError
from core.files import write_atomic
from firmware_configs.kits.kit import KitWheel
from firmware_configs.kits.lock import Locked, lock_text, locked, read_lock, shipped_lock
from firmware_configs.kits.own_packages import LocalWheel, local_wheels, named_requirements
from firmware_configs.kits.own_wheel import own_wheel
from firmware_configs.kits.resolve import Found, Target, ask, held_requirements, resolve
from firmware_configs.kits.torch_source import TorchSource
from firmware_configs.kits.wheels import WheelStore, make_folder
from wire.ids import digest_of

__all__ = ["WheelSet", "WheelSets"]

RESOLVED = "resolved"
#: Of a board's file system: a file or a folder takes whole blocks.
BLOCK = 4096
#: The installer compiles what the agent imports: 21 to 30 % of the bytes of source were measured, 37 % with Brevitas.
BYTECODE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSet:
    """All wheels for one target."""

    target: Target
    wheels: Mapping[str, Locked]  # by name
    carried: frozenset[str]  # names of those that go with the kit; a board fetches the rest
    installed: int  # bytes of the disk that those take once they are installed

    def lock(self) -> str:
        """The text of the kit's lock."""
        return lock_text(self.wheels, f"Wheels of this kit for {self.target.arch} with Python {self.target.python}.")


class WheelSets:
    """The wheel sets of one run, each made once; `carry_all`: wheels from pip's index go with the kits too."""

    def __init__(self, store: WheelStore, packages: Sequence[str], base: Path, *, carry_all: bool) -> None:
        self.store, self.carry_all = store, carry_all
        self.requirements = named_requirements(packages)
        self._packages, self._base = packages, base
        self._local: list[LocalWheel] | None = None
        self._made: dict[tuple[Target, str, TorchSource | None], WheelSet] = {}

    def get(self, target: Target, mode: str, torch: TorchSource | None) -> WheelSet:
        """The set of a target; without a source, torch is that of the lock."""
        key = (target, mode, torch)
        if key not in self._made:
            self._made[key] = self._make(target, mode, torch)
        return self._made[key]

    def kit_wheels(self, sets: Mapping[str, WheelSet]) -> dict[str, KitWheel]:
        """Entries of kit.json, of wheel sets by family."""
        found: dict[str, KitWheel] = {}
        for family, made in sets.items():
            for name in made.carried:
                wheel = made.wheels[name]
                size = self.store.path(wheel.file, wheel.sha256).stat().st_size
                former = found[wheel.file].os if wheel.file in found else ()
                found[wheel.file] = KitWheel(wheel.sha256, size, (*former, family))
        return found

    def _installed(self, wheels: Iterable[Locked]) -> int:
        files: dict[str, int] = {}
        for wheel in wheels:
            with zipfile.ZipFile(self.store.path(wheel.file, wheel.sha256)) as archive:
                files |= {entry.filename: entry.file_size for entry in archive.infolist() if not entry.is_dir()}
        folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
        source = sum(size for name, size in files.items() if name.endswith(".py"))
        return sum(-(-size // BLOCK) * BLOCK for size in files.values()) + len(folders) * BLOCK + source // BYTECODE

    def _make(self, target: Target, mode: str, torch: TorchSource | None) -> WheelSet:
        lock = dict(shipped_lock(target, mode))
        if torch is not None:
            lock.pop("torch", None)
        own = self._own(target)
        found = self._resolved(target, mode, lock, [r for w in own.values() for r in w.requires], torch)
        local = {name: self.store.put(wheel.wheel) for name, wheel in own.items()}
        wheels = {**lock, **found, **local}
        fetched = {name for name in wheels if name not in local and self.carry_all}
        if torch is not None and torch.requirement is not None and (torch.carried or self.carry_all):
            self.store.fetch({"torch": wheels["torch"]}, target, torch.options)
            fetched.add("torch")
        self.store.fetch({name: wheels[name] for name in fetched}, target)
        carried = frozenset({*local, *fetched})
        installed = self._installed(wheels[name] for name in carried)
        return WheelSet(target=target, wheels=wheels, carried=carried, installed=installed)

    def _own(self, target: Target) -> dict[str, LocalWheel]:
        """edgestill's wheel, and those of the user's folders and files that fit the target."""
        if self._local is None:
            self._local = [LocalWheel(own_wheel(), (), True), *local_wheels(self._packages, self._base)]
        fitting = {}
        for local in self._local:
            name = canonicalize_name(local.wheel.name)
            if local.any_platform or _fits(local.wheel.file, target):
                fitting[str(name)] = local
        for local in self._local:
            if canonicalize_name(local.wheel.name) not in fitting:
                what = f"Python {target.python} on {target.arch}"
                raise ConfigError(f"packages: {local.wheel.file} is not for {what}; build one that is, and name both")
        return fitting

    def _resolved(
        self,
        target: Target,
        mode: str,
        lock: Mapping[str, Locked],
        required: Sequence[str],
        torch: TorchSource | None,
    ) -> dict[str, Locked]:
        """What is not in the lock, with everything that it requires."""
        wanted = [*self.requirements, *required]
        if not wanted and (torch is None or torch.requirement is None):
            return {}
        asked = [astuple(target), mode, wanted, torch and astuple(torch), lock_text(lock)]
        path = self.store.folder / RESOLVED / f"{digest_of(msgspec.json.encode(asked))[:16]}.txt"
        if not path.is_file():
            found = _resolve(target, wanted, lock, torch)
            make_folder(path.parent)
            write_atomic(
                path, lock_text(locked(found), "Resolved once, by `edgestill provision`; see kits/wheel_set.py.")
            )
        return read_lock(path)


def _resolve(
    target: Target, wanted: Sequence[str], lock: Mapping[str, Locked], torch: TorchSource | None
) -> list[Found]:
    found: list[Found] = []
    pins = {name: wheel.version for name, wheel in lock.items()}
    if torch is not None and torch.requirement is not None:
        found = ask([torch.requirement], target, torch.options)
        pins |= {made.name: made.version for made in found}
        needed = [r for made in found for r in held_requirements(made, target, "")]
        wanted = [*wanted, *map(str, needed)]
    without = {"edgestill"} if torch is None or torch.requirement else {"edgestill", "torch"}
    return [*found, *resolve(wanted, target, pins=pins, without=without).values()]


def _fits(file: str, target: Target) -> bool:
    major, minor = map(int, target.python.split("."))
    platforms = target.platforms()
    known = {*cpython_tags((major, minor), platforms=platforms), *compatible_tags((major, minor), platforms=platforms)}
    return bool(known & parse_wheel_filename(file)[3])
