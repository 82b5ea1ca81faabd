"""Brings another version of edgestill to boards that run: makes the bundle, signs it, and asks the service to offer it.

Run where the kits and the fleet's authority are, as `edgestill device approve` is. What travels is what the boards do
not have, as far as their kits tell: edgestill's own wheel and those of `[provision] packages`, and wheels of the new
lock that their kit's lock has not. With wheels = "fleet" only the lock does.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.rollout import Rollout
from aggregator.downlink.upgrades import ABORT, BUNDLES, UPGRADE, rollout_facts, unable_devices
from aggregator.operator_client import ask_service
from aggregator.storage.journal import Journal
from core.errors import ConfigError, did_you_mean
from firmware_configs.identity.ca import open_authority
from firmware_configs.identity.identities import key_of_file
from firmware_configs.kits.kit import MANIFEST, load_kit
from firmware_configs.kits.lock import Locked, parse_lock
from firmware_configs.kits.own_packages import local_wheels
from firmware_configs.kits.own_wheel import Wheel, own_wheel
from firmware_configs.kits.resolve import Target
from firmware_configs.kits.torch_source import TorchSource
from firmware_configs.kits.upgrades.bundle import Bundle, BundleTarget, write_bundle
from firmware_configs.kits.wheel_set import WheelSet, WheelSets
from firmware_configs.kits.wheels import STORE, WheelStore
from firmware_configs.manifest import DevicePlan, Manifest
from firmware_configs.provision import authority_folder

__all__ = ["Asked", "Offer", "abort_update", "choose", "offer_update", "update_status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the operator has asked for; `wheel` is that of another version than the one that runs here."""

    to: str
    devices: Sequence[DevicePlan]
    wheel: Path | None = None
    canary: int = 0
    wait_s: float = 0.0
    force: bool = False
    whole: bool = False  # every wheel travels, whatever the boards have


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What was made of it."""

    version: str
    number: int
    bundle: str
    size: int
    devices: tuple[str, ...]
    canaries: tuple[str, ...]
    wheels: tuple[str, ...]  # that travel
    answer: str  # of the service; empty in a dry run

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def choose(
    manifest: Manifest, names: Collection[str], groups: Collection[str], *, everything: bool
) -> list[DevicePlan]:
    """The devices of these names and groups, or all, without revoked ones."""
    if bool(names or groups) == everything:
        raise ConfigError("name devices, give --group, or give --all")
    known = {device.group for device in manifest.devices}
    for group in groups:
        if group not in known:
            raise ConfigError(f"no [[group]] {group!r}{did_you_mean(group, known)}; known: {' '.join(sorted(known))}")
    for name in names:
        manifest.device(name)
    with open_authority(authority_folder(manifest.out), manifest.fleet) as authority:
        found = [
            device
            for device in manifest.devices
            if (everything or device.id in names or device.group in groups) and not authority.is_out(device.id)
        ]
    if not found:
        raise ConfigError("every device that is meant was revoked; nothing to update")
    return found


def offer_update(manifest: Manifest, fleet: FleetConfig, asked: Asked, *, dry_run: bool = False) -> Offer:
    """Make and sign the bundle, and ask the service to offer it; a dry run keeps and asks nothing."""
    if manifest.wheels == "none":
        raise ConfigError('wheels = "none" in [provision]: what is on these boards is not edgestill\'s to replace')
    edgestill = _edgestill(asked)
    store = WheelStore(manifest.out / STORE)
    carry_all = manifest.wheels in ("card", "fleet")
    base = manifest.path.resolve().parent
    sets = WheelSets(store, manifest.packages, base, carry_all=carry_all, edgestill=edgestill)
    with closing(Journal(fleet.state / "journal.db", read_only=True)) as journal:
        number = max(int(time.time()), rollout_facts(journal, 0.0).get("number", 0) + 1)
        online = {row.id for row in journal.devices() if row.status == "online"}
        unable = unable_devices(journal)
    order = tuple(
        sorted((device.id for device in asked.devices), key=lambda name: (name in unable, name not in online))
    )
    if order[0] in unable:
        raise ConfigError(f"no device that is meant takes an update; {order[0]}: {unable[order[0]]}")
    targets, carried = _targets(manifest, asked, sets, edgestill)
    bundle = Bundle(
        fleet=manifest.fleet,
        version=edgestill.version,
        number=number,
        force=asked.force,
        targets=tuple(targets),
        carried=tuple(carried.values()),
    )
    with open_authority(authority_folder(manifest.out), manifest.fleet) as authority:
        key = key_of_file(authority.folder / "kit.key")
        digest, size = write_bundle(bundle, store, key, fleet.state / BUNDLES)
    rollout = Rollout(
        bundle=digest,
        size=size,
        number=number,
        version=edgestill.version,
        devices=order,
        canary=min(asked.canary, len(order)),
        wait_s=asked.wait_s,
    )
    answer = _roll_out(rollout, fleet, dry_run=dry_run)
    return _offer_of(rollout, asked, (wheel.file for wheel in carried.values()), answer)


def _roll_out(rollout: Rollout, fleet: FleetConfig, *, dry_run: bool) -> str:
    """Ask the service for the rollout; its answer. A dry run removes the bundle."""
    if dry_run:
        (fleet.state / BUNDLES / rollout.bundle).unlink()
        return ""
    answer = ask_service(fleet, UPGRADE, msgspec.json.encode(rollout).decode())
    _forget_others(fleet.state / BUNDLES, rollout.bundle)
    return answer


def _offer_of(rollout: Rollout, asked: Asked, wheels: Iterable[str], answer: str) -> Offer:
    return Offer(
        version=rollout.version,
        number=rollout.number,
        bundle=rollout.bundle,
        size=rollout.size,
        devices=rollout.devices,
        canaries=rollout.devices[: asked.canary],
        wheels=tuple(sorted(wheels)),
        answer=answer,
    )


def abort_update(fleet: FleetConfig) -> str:
    """Offer it no longer: boards that have not begun to install stay as they are."""
    return ask_service(fleet, ABORT)


def update_status(fleet: FleetConfig) -> dict[str, Any]:
    """The last rollout, as it is now."""
    with closing(Journal(fleet.state / "journal.db", read_only=True)) as journal:
        return rollout_facts(journal, time.time())


def _edgestill(asked: Asked) -> Wheel:
    """The wheel of the version that was asked for."""
    if asked.wheel is not None:
        found = local_wheels([str(asked.wheel.resolve())], asked.wheel.parent)[0].wheel
        if found.name != "edgestill":
            raise ConfigError(f"{asked.wheel}: a wheel of {found.name}, not of edgestill")
    else:
        found = own_wheel()
    if asked.to not in (found.version, found.version.partition("+")[0]):
        there = "that wheel" if asked.wheel is not None else "this machine"
        raise ConfigError(
            f"--to {asked.to}: {there} has edgestill {found.version.partition('+')[0]};"
            f" install {asked.to} here, or give its wheel with --wheel"
        )
    return found


def _targets(
    manifest: Manifest, asked: Asked, sets: WheelSets, edgestill: Wheel
) -> tuple[list[BundleTarget], dict[str, Locked]]:
    """The parts of the bundle, one for each kind of board, and the wheels that travel, by file."""
    kinds: dict[tuple[Target, str, TorchSource | None], list[DevicePlan]] = {}
    for device in asked.devices:
        for target in dict.fromkeys(device.targets.values()):
            kinds.setdefault((target, device.mode, device.torch), []).append(device)
    found: list[BundleTarget] = []
    carried: dict[str, Locked] = {}
    for (target, mode, torch), devices in kinds.items():
        made = sets.get(target, mode, torch)
        there = set() if asked.whole else set.intersection(*(_kit_hashes(manifest, device) for device in devices))
        new = {n: w for n, w in made.wheels.items() if w.sha256 not in there or w.sha256 == edgestill.sha256}
        travels = {} if manifest.fetch is not None else {n: w for n, w in new.items() if n in made.carried}
        carried |= {wheel.file: wheel for wheel in travels.values()}
        found.append(_target(manifest, made, devices, new, torch, sets))
    return found, carried


def _target(
    manifest: Manifest,
    made: WheelSet,
    devices: Sequence[DevicePlan],
    new: Mapping[str, Locked],
    torch: TorchSource | None,
    sets: WheelSets,
) -> BundleTarget:
    paths = {wheel.file: sets.store.path(wheel.file, wheel.sha256) for wheel in made.wheels.values()}
    fetched = manifest.fetch is not None
    return BundleTarget.of(
        made,
        [device.id for device in devices],
        unpacked=sets.installed(wheel for wheel in new.values() if paths[wheel.file].is_file()),
        others={w.file: {"sha256": w.sha256, "bytes": paths[w.file].stat().st_size} for w in made.wheels.values()}
        if fetched
        else {},
        fetch=manifest.fetch.url if manifest.fetch is not None else None,
        network=manifest.wheels == "network",
        index=None if torch is None else torch.index,
    )


def _kit_hashes(manifest: Manifest, device: DevicePlan) -> set[str]:
    """The wheels that a board has, if the kit that lies here is the one that was installed there."""
    folder = manifest.out / device.id
    if not (folder / MANIFEST).is_file():
        raise ConfigError(f"{device.id} has no kit in {manifest.out}; run `edgestill provision {manifest.path}` first")
    kit = load_kit(folder, key_of_file(authority_folder(manifest.out) / "kit.key").public_key())
    locks = [file.data.decode() for name, file in kit.files.items() if name.startswith("locks/")]
    return {wheel.sha256 for text in locks for wheel in parse_lock(text, f"kit {device.id}").values()}


def _forget_others(folder: Path, digest: str) -> None:
    """Only one rollout is under way: bundles of earlier ones are of no more use."""
    for path in folder.iterdir():
        if path.name != digest:
            path.unlink()
