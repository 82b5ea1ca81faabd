"""Kits: all files that one board needs, in a folder with a manifest signed by the fleet.

    kits/fleet-kit.pub        the key that verifies the kits of this fleet
    kits/pi-07/kit.json       {"schema": 1, "fleet", "device", "board", "os": [...], "created", "files": {...}}
    kits/pi-07/kit.sig        Ed25519 over the bytes of kit.json, 64 bytes
    kits/pi-07/...            every file that kit.json names: {"agent.toml": {"sha256": "...", "mode": "0644"}, ...}

A path in `files` is relative, with '/' between its parts. Files below `boot/FAMILY/` are for the first boot of one OS
family (`os` lists the rendered ones); all others belong together in one folder of the board: `agent.toml`, `tls/`, the
keys and the unit are next to `install.sh`. Nothing of a kit is used before its signature and every hash have been
checked: `load_kit` returns exactly the bytes that it has hashed.

The wheels that the board installs are beside the kits, one copy for all: `wheels` of kit.json names each with its
SHA-256, its size and the families that need it, {"torch-2.7.1-….whl": {"sha256": "...", "bytes": 98946649, "os":
["bookworm"]}}. They are large, so `kits/wheels.py` checks them when they are used. A kit without the field has none.
`fetch`, {"url": "http://192.168.1.10:8090", "always": true}, is where boards fetch those that their card does not have
(`on_board/fetch_wheels.py`): all of them, or, if not `always`, when a card has no room for them.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import msgspec
from cryptography.exceptions import InvalidSignature

from core.errors import ConfigError, EdgestillError, SignatureError
from core.files import read_regular
from firmware_configs.boards import FAMILIES
from wire.ids import check_device, check_digest, check_id, digest_of
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey

__all__ = [
    "FAMILIES",
    "MANIFEST",
    "SIGNATURE",
    "Kit",
    "KitFetch",
    "KitFile",
    "KitWheel",
    "check_url",
    "load_kit",
    "read_part",
    "recover_kit",
    "write_kit",
]

MANIFEST, SIGNATURE = "kit.json", "kit.sig"
SCHEMA = 1
MAX_MANIFEST = 256 * 1024
MAX_FILE = 64 * 1024 * 1024  # an ONNX graph for a light device may be one of the files
PART = re.compile(r"[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*")
WHEEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*\.whl")
URL = re.compile(r"[\x21-\x7e]{1,200}")
MODE = re.compile(r"0[0-7]{3}")
CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True, slots=True)
class KitFile:
    """The bytes and the mode of one file."""

    data: bytes
    mode: int = 0o644

    @property
    def secret(self) -> bool:
        """Whether only its owner may read it."""
        return not self.mode & 0o077


class KitWheel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wheel of a kit, which is in `_wheels` beside the kits."""

    sha256: str
    bytes: int
    os: tuple[str, ...]  # the families that need it

    def __post_init__(self) -> None:
        check_digest(self.sha256)
        if self.bytes < 0:
            raise ConfigError("a wheel of fewer than 0 bytes")


class KitFetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a board fetches the wheels that it lacks."""

    url: str
    always: bool  # no card gets them

    def __post_init__(self) -> None:
        check_url(self.url)


def check_url(url: str) -> str:
    """The address of `edgestill kit serve`, or of a server before it; ConfigError if it is none."""
    try:
        place = urlsplit(url)
        fine = place.scheme in ("http", "https") and place.hostname and place.port != 0 and URL.fullmatch(url)
    except ValueError:
        fine = False
    if not fine or place.username is not None or place.query or place.fragment:
        raise ConfigError(f"{url[:80]!r} is not an address such as http://192.168.1.10:8090")
    return url


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """One device's kit, verified."""

    fleet: str
    device: str
    board: str
    os: tuple[str, ...]
    created: str  # UTC, 2026-11-16T10:00:00Z
    files: Mapping[str, KitFile]
    wheels: Mapping[str, KitWheel] = field(default_factory=dict)
    fetch: KitFetch | None = None

    def __post_init__(self) -> None:
        check_id(self.fleet, "fleet")
        check_device(self.device)
        for family in self.os:
            if family not in FAMILIES:
                raise ConfigError(f"kit {self.device}: unknown OS family {family!r}; known: {' '.join(FAMILIES)}")
        for name in self.files:
            _check_path(name)
        for name in self.wheels:
            if not WHEEL.fullmatch(name):
                raise ConfigError(f"kit {self.device}: {name[:80]!r} is not the name of a wheel")

    def manifest(self) -> bytes:
        """The bytes of kit.json."""
        files = {
            name: {"sha256": digest_of(file.data), "mode": f"{file.mode:04o}"}
            for name, file in sorted(self.files.items())
        }
        facts = {"schema": SCHEMA, "fleet": self.fleet, "device": self.device, "board": self.board}
        facts |= {"os": list(self.os), "created": self.created, "files": files}
        facts |= {"wheels": dict(sorted(self.wheels.items()))} if self.wheels else {}
        facts |= {"fetch": self.fetch} if self.fetch else {}
        return msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"

    def boot(self, family: str) -> dict[str, KitFile]:
        """The files of one OS family's first boot, by their names below `boot/FAMILY/`."""
        start = f"boot/{family}/"
        return {name.removeprefix(start): file for name, file in self.files.items() if name.startswith(start)}

    def payload(self) -> dict[str, KitFile]:
        """The files that are installed on the board: all but those below `boot/`."""
        return {name: file for name, file in self.files.items() if not name.startswith("boot/")}


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    sha256: str
    mode: str


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    fleet: str
    device: str
    board: str
    os: list[str]
    created: str
    files: dict[str, _Entry]
    wheels: dict[str, KitWheel] = {}
    fetch: KitFetch | None = None


def write_kit(folder: Path | str, kit: Kit, key: Ed25519PrivateKey) -> None:
    """Write the kit to `folder`, replacing an existing one atomically."""
    folder = Path(folder)
    staging, former = _beside(folder)
    recover_kit(folder)
    staging.mkdir(parents=True, mode=0o700)
    manifest = kit.manifest()
    own = {MANIFEST: KitFile(manifest), SIGNATURE: KitFile(key.sign(manifest))}
    for name, file in {**kit.files, **own}.items():
        _put(staging / name, file)
    if folder.exists():
        folder.rename(former)
    staging.rename(folder)
    shutil.rmtree(former, ignore_errors=True)


def recover_kit(folder: Path | str) -> None:
    """Recover from an interrupted `write_kit`: restore the old kit, if the new one is not in place."""
    folder = Path(folder)
    staging, former = _beside(folder)
    if former.exists() and not folder.exists():
        former.rename(folder)
    for left in (staging, former):
        shutil.rmtree(left, ignore_errors=True)


def load_kit(folder: Path | str, public_key: Ed25519PublicKey) -> Kit:
    """The kit at `folder`; SignatureError if the signature, a hash, or the set of files is wrong."""
    folder = Path(folder)
    raw = read_part(folder / MANIFEST, MAX_MANIFEST)
    try:
        public_key.verify(read_part(folder / SIGNATURE, 64), raw)
    except InvalidSignature:
        raise SignatureError(f"kit {folder}: {SIGNATURE} does not match {MANIFEST} and the fleet's kit key") from None
    try:
        facts = msgspec.json.decode(raw, type=_Manifest)
        if facts.schema != SCHEMA:
            raise ConfigError(f"schema {facts.schema}, this edgestill supports {SCHEMA}")
        check_id(facts.board, "board")
        if not CREATED.fullmatch(facts.created):
            raise ConfigError(f"'created' is {facts.created[:40]!r}, not a time in UTC")
        files = {name: _checked(folder, name, entry) for name, entry in facts.files.items()}
        kit = Kit(
            fleet=facts.fleet,
            device=facts.device,
            board=facts.board,
            os=tuple(facts.os),
            created=facts.created,
            files=files,
            wheels=facts.wheels,
            fetch=facts.fetch,
        )
    except SignatureError:
        raise
    except (msgspec.MsgspecError, EdgestillError) as error:
        raise ConfigError(f"kit {folder}: {MANIFEST}: {error}") from None
    _refuse_others(folder, {*files, MANIFEST, SIGNATURE})
    return kit


def _beside(folder: Path) -> tuple[Path, Path]:
    return folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")


def _checked(folder: Path, name: str, entry: _Entry) -> KitFile:
    _check_path(name)
    check_digest(entry.sha256)
    if not MODE.fullmatch(entry.mode):
        raise ConfigError(f"mode {entry.mode!r} of {name}; expected something like 0600")
    data = read_part(folder / name, MAX_FILE)
    if digest_of(data) != entry.sha256:
        raise SignatureError(f"kit {folder}: {name} is not the file that was signed; create the kit again")
    return KitFile(data, int(entry.mode, 8))


def _check_path(name: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or "/".join(parts) != name or not all(PART.fullmatch(part) for part in parts):
        raise ConfigError(f"path {name[:80]!r}: must be relative, of letters, digits and . _ @ + - between slashes")


def _refuse_others(folder: Path, known: set[str]) -> None:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or (not path.is_dir() and name not in known):
            raise SignatureError(f"kit {folder}: {name} is not part of the kit; remove it")


def read_part(path: Path, most: int) -> bytes:
    """Read a file of a kit: a plain file, not a link, within the size limit."""
    try:
        return read_regular(path, most, follow=False)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EFBIG):
            raise SignatureError(f"kit: {path} is {error.strerror}; a kit holds plain files") from None
        raise ConfigError(f"kit: cannot read {path}: {error.strerror}; is it a kit of `edgestill provision`?") from None


def _put(path: Path, file: KitFile) -> None:
    for folder in reversed(path.parents):
        folder.mkdir(exist_ok=True, mode=0o700)
    # at no moment readable by others
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
    with os.fdopen(handle, "wb") as out:
        os.fchmod(handle, file.mode)
        out.write(file.data)
