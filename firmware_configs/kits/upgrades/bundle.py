"""Bundles: another version of edgestill for boards that run, signed with the fleet's kit key.

`on_board/bundles.py` has the format and opens it. The manifest is JSON:

    schema    1
    fleet, version, number     the number is the time of signing: a board accepts no smaller one again
    force     whether a board may take it though it has a newer version
    wheels    those that travel with it, by file: sha256, bytes
    targets   for each kind of board: devices, machine, python, lock (as in kits), unpacked (bytes);
              others: wheels of the lock that are fetched, by file: sha256, bytes; fetch: from where, or null;
              network, index: whether pip fetches the others, and where besides the board's index

What a board has installed need not travel: its lock names it, and pip passes over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.errors import ConfigError
from core.files import atomic_file
from firmware_configs.kits.lock import Locked
from firmware_configs.kits.resolve import ARCHS, Target
from firmware_configs.kits.wheel_set import WheelSet
from firmware_configs.kits.wheels import WheelStore
from firmware_configs.on_board.bundles import MAGIC, MAX_BUNDLE
from wire.ids import digest_of
from wire.keys import Ed25519PrivateKey

__all__ = ["Bundle", "BundleTarget", "write_bundle"]

PIECE = 1 << 20


class BundleTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of board, as the manifest has it."""

    devices: tuple[str, ...]
    machine: str
    python: str
    lock: str
    unpacked: int
    others: Mapping[str, Mapping[str, str | int]] = {}
    fetch: str | None = None
    network: bool = False
    index: str | None = None

    @classmethod
    def of(
        cls, made: WheelSet, devices: Sequence[str], *, unpacked: int, others: Mapping[str, Mapping[str, str | int]],
        fetch: str | None, network: bool, index: str | None,
    ) -> BundleTarget:  # fmt: skip
        """The target that a wheel set was made for."""
        target: Target = made.target
        return cls(
            devices=tuple(devices),
            machine=ARCHS[target.arch],
            python=target.python,
            lock=made.lock(),
            unpacked=unpacked,
            others=others,
            fetch=fetch,
            network=network,
            index=index,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What is signed; `carried` are wheels of the store."""

    fleet: str
    version: str
    number: int
    force: bool
    targets: tuple[BundleTarget, ...]
    carried: tuple[Locked, ...]


def write_bundle(bundle: Bundle, store: WheelStore, key: Ed25519PrivateKey, folder: Path) -> tuple[str, int]:
    """Write the bundle to `folder`, named by its SHA-256; returns that and its size."""
    paths = {wheel.file: store.path(wheel.file, wheel.sha256) for wheel in bundle.carried}
    facts = {
        "schema": 1,
        "fleet": bundle.fleet,
        "version": bundle.version,
        "number": bundle.number,
        "force": bundle.force,
        "wheels": {w.file: {"sha256": w.sha256, "bytes": paths[w.file].stat().st_size} for w in bundle.carried},
        "targets": bundle.targets,
    }
    manifest = msgspec.json.encode(facts)
    opening = MAGIC + len(manifest).to_bytes(4, "big") + manifest + key.sign(MAGIC + manifest)
    size = len(opening) + sum(path.stat().st_size for path in paths.values())
    if size > MAX_BUNDLE:
        raise ConfigError(
            f"the bundle has {size / 1e6:.0f} MB, at most {MAX_BUNDLE / 1e6:.0f} can travel over MQTT;"
            ' set wheels = "fleet" in [provision], with wheels_url'
        )
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / ".bundle"
    with atomic_file(beside) as out:
        out.write(opening)
        for path in paths.values():
            with path.open("rb") as wheel:
                while piece := wheel.read(PIECE):
                    out.write(piece)
    with beside.open("rb") as file:
        digest = digest_of(iter(lambda: file.read(PIECE), b""))
    beside.rename(folder / digest)
    return digest, size
