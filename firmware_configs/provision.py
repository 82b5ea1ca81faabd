"""From a manifest to kits and identities; idempotent: a further run creates only what is missing or has changed.

    OUT/fleet-kit.pub               checks the signatures of kits
    OUT/DEVICE/                     a kit: firmware_configs/kits/kit.py
    OUT/_fleet/authority/           the certificate authority and the key that signs kits: keep it safe, back it up
    OUT/_fleet/aggregator/          tls files of the aggregator
    OUT/_fleet/broker/              Mosquitto: configuration, access list, certificate, revoked certificates
    OUT/_fleet/devices/DEVICE.pub   public signing keys: [devices] keys_dir
    OUT/_fleet/graphs/              first models of prototypes, as graphs for light devices
    OUT/_wheels/                    what boards install: firmware_configs/kits/wheels.py

Device ids contain no `_`, so neither is a kit. A kit contains the device's keys, or, if boards generate their
own (`enrol`), a claim with which they are certified: firmware_configs/approve.py. A device keeps its keys when its
settings change; `renew` creates a new TLS key and certificate, or a new claim. Its signing key, by which the aggregator
identifies it, stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import serialization

from core.errors import ConfigError
from core.files import read_regular, write_atomic
from edge_agent.config import read_agent_config
from firmware_configs.boards import PROFILE, own_profile
from firmware_configs.broker.install import SCRIPT
from firmware_configs.broker.mosquitto import acl, conf
from firmware_configs.first_graph import first_graph
from firmware_configs.identity.ca import Authority, open_authority
from firmware_configs.identity.identities import (
    RENEW_BEFORE,
    ends,
    key_of_file,
    make_tls,
    signing_pem,
    tls_files,
)
from firmware_configs.kits.agent_toml import agent_toml
from firmware_configs.kits.bootfiles import boot_files
from firmware_configs.kits.install import Install, install_script
from firmware_configs.kits.kit import MANIFEST, MAX_FILE, Kit, KitFile, load_kit, recover_kit, write_kit
from firmware_configs.kits.unit import NAME as UNIT
from firmware_configs.kits.unit import unit
from firmware_configs.kits.upgrades.installer import upgrader_files
from firmware_configs.kits.wheel_set import WheelSet, WheelSets
from firmware_configs.kits.wheels import STORE, WheelStore
from firmware_configs.manifest import DevicePlan, Manifest
from firmware_configs.on_board import fetch_wheels, report_failure
from wire.enrolment import claim_name
from wire.ids import AGGREGATOR, digest_of
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey, generate_key, save_public_key

__all__ = ["FLEET", "KIT_PUB", "Provisioned", "authority_folder", "provision", "publish_revocations"]

FLEET, KIT_PUB = "_fleet", "fleet-kit.pub"
VENV_MB = 30  # of a new virtual environment: 13 MB with Python 3.13, 26 MB with 3.11, whose has setuptools
SECRETS = SIGNING, KEY, CERT, CLAIM_KEY, CLAIM_CERT = (
    *("device.key", "tls/device.key", "tls/device.pem"),
    *("tls/claim.key", "tls/claim.pem"),
)


@dataclass(slots=True)
class Provisioned:
    """The result of a run: ids of devices."""

    made: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)  # revoked devices, which are skipped
    servers: list[str] = field(default_factory=list)  # new certificates: broker, aggregator
    unclaimed: list[str] = field(default_factory=list)  # will generate their own keys, to be approved
    ending: list[str] = field(default_factory=list)  # unchanged, but their certificates, or unused claims, expire soon
    strangers: list[str] = field(default_factory=list)  # kits of devices that are not in the manifest


def authority_folder(out: Path) -> Path:
    """The folder of the fleet's authority."""
    return out / FLEET / "authority"


def provision(manifest: Manifest, *, renew: Collection[str] = ()) -> Provisioned:
    """Create missing kits, and those whose settings have changed; new certificates for devices in `renew`."""
    for name in renew:
        manifest.device(name)
    out, done = manifest.out, Provisioned()
    for folder in (out, out / FLEET):  # a user with write access could replace kits
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    signer = key_of_file(manifest.aggregator_key)
    with open_authority(authority_folder(out), manifest.fleet, days=manifest.authority_days) as authority:
        kit_key = key_of_file(authority.folder / "kit.key")
        save_public_key(kit_key.public_key(), out / KIT_PUB)
        run = _Run(manifest, authority, kit_key, signer.public_key(), _wheel_sets(manifest))
        try:
            _servers(manifest, authority, done)
            for name in renew:
                if authority.is_out(name):
                    raise ConfigError(f"{name} was revoked; to bring it back: `edgestill device revoke --undo {name}`")
            for device in manifest.devices:
                if authority.is_out(device.id):  # it gets no kit, even if its kit was deleted
                    done.revoked.append(device.id)
                    continue
                _device(device, run, device.id in renew, done)
        finally:
            authority.save()  # record issued certificates, even after an error
        publish_revocations(out, authority)
    if manifest.fetch is None:  # boards with an earlier kit still ask for the wheels of that
        _forget_own_wheels(out)
    known = {device.id for device in manifest.devices}
    done.strangers = sorted(p.parent.name for p in out.glob(f"*/{MANIFEST}") if p.parent.name not in known)
    return done


def publish_revocations(out: Path, authority: Authority) -> Path:
    """Write the certificate revocation list to the broker's files; returns its path."""
    path = out / FLEET / "broker" / "crl.pem"
    write_atomic(path, authority.crl())
    return path


def _servers(manifest: Manifest, authority: Authority, done: Provisioned) -> None:
    own = manifest.out / FLEET
    names = manifest.server_names
    if tls_files(own / "broker", authority, "broker", purpose="server", days=manifest.days, alternatives=names):
        done.servers.append("broker")
    if tls_files(own / AGGREGATOR, authority, AGGREGATOR, purpose="client", days=manifest.days):
        done.servers.append(AGGREGATOR)
    for form in ("2.0", "2.1"):
        text = conf(form, port=manifest.port, devices=len(manifest.devices), memory_mb=manifest.broker_mb)
        write_atomic(own / "broker" / f"mosquitto-{form}.conf", text)
    write_atomic(own / "broker" / "install.sh", SCRIPT, mode=0o755)
    enrolling = [device.id for device in manifest.devices if device.enrol != "off"]
    write_atomic(own / "broker" / "acl", acl(manifest.fleet, enrolling))
    (own / "devices").mkdir(exist_ok=True, mode=0o755)


@dataclass(frozen=True, slots=True)
class _Run:
    """What all devices of a run share."""

    manifest: Manifest
    authority: Authority
    kit_key: Ed25519PrivateKey
    aggregator: Ed25519PublicKey
    sets: WheelSets | None  # None: boards have their packages


def _wheel_sets(manifest: Manifest) -> WheelSets | None:
    if manifest.wheels == "none":
        return None
    store, base = WheelStore(manifest.out / STORE), manifest.path.resolve().parent
    return WheelSets(store, manifest.packages, base, carry_all=manifest.wheels in ("card", "fleet"))


def _forget_own_wheels(out: Path) -> None:
    """Remove edgestill's own wheels of earlier versions, which no kit names any more."""
    named = b"".join(path.read_bytes() for path in out.glob(f"*/{MANIFEST}"))
    for path in (out / STORE).glob("*/edgestill-*.whl"):
        if path.parent.name.encode() not in named:
            path.unlink()
            path.parent.rmdir()


def _device(device: DevicePlan, run: _Run, renew: bool, done: Provisioned) -> None:
    manifest = run.manifest
    folder = manifest.out / device.id
    recover_kit(folder)
    former = load_kit(folder, run.kit_key.public_key()) if folder.exists() else None
    if former is not None and former.fleet != manifest.fleet:
        raise ConfigError(f"{folder} is a kit of fleet {former.fleet!r}; give another --out")
    secrets = _secrets(device, manifest, run.authority, former, renew)
    kit = _kit(device, run, secrets)
    if former is not None and replace(former, created=kit.created) == kit:
        done.kept.append(device.id)
    else:
        write_kit(folder, kit, run.kit_key)
        read_agent_config(folder / "agent.toml", environ={})  # check with the agent's own reader
        (done.made if former is None else done.renewed if renew else done.changed).append(device.id)
    if SIGNING in secrets:
        write_public(manifest.out / FLEET / "devices" / f"{device.id}.pub", secrets[SIGNING].data)
        if ends(secrets[CERT].data) - RENEW_BEFORE < datetime.now(timezone.utc):
            done.ending.append(device.id)
    else:
        _told_of_claim(device.id, secrets[CLAIM_CERT].data, run.authority, done)


def _kit(device: DevicePlan, run: _Run, secrets: Mapping[str, KitFile]) -> Kit:
    sets = {} if run.sets is None else _sets(device, run.sets)
    return Kit(
        fleet=run.manifest.fleet,
        device=device.id,
        board=device.board.name,
        os=device.os,
        created=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        files=_files(device, run, secrets, sets),
        wheels={} if run.sets is None else run.sets.kit_wheels(sets),
        fetch=run.manifest.fetch,
    )


def _sets(device: DevicePlan, sets: WheelSets) -> dict[str, WheelSet]:
    """The wheel sets of a device, by OS family."""
    try:
        return {family: sets.get(target, device.mode, device.torch) for family, target in device.targets.items()}
    except ConfigError as error:
        raise ConfigError(f"{device.group}, {device.board.name}: {error}") from None


def _secrets(
    device: DevicePlan, manifest: Manifest, authority: Authority, former: Kit | None, renew: bool
) -> dict[str, KitFile]:
    """The identity files of a kit: the existing ones, or new ones."""
    there = {} if former is None else {name: former.files[name] for name in SECRETS if name in former.files}
    if device.enrol != "off":
        if CLAIM_CERT in there and not renew:
            return {name: there[name] for name in (CLAIM_KEY, CLAIM_CERT)}
        facts = {"device": device.id, "enrol": device.enrol}
        claim = make_tls(authority, claim_name(device.id), purpose="client", days=manifest.claim_days, **facts)
        return {CLAIM_KEY: KitFile(claim.key, 0o600), CLAIM_CERT: KitFile(claim.cert)}
    signing = there.get(SIGNING) or KitFile(signing_pem(generate_key()), 0o600)
    if CERT in there and not renew:
        return {SIGNING: signing, KEY: there[KEY], CERT: there[CERT]}
    tls = make_tls(authority, device.id, purpose="client", days=manifest.days)
    return {SIGNING: signing, KEY: KitFile(tls.key, 0o600), CERT: KitFile(tls.cert)}


def _told_of_claim(device: str, claim: bytes, authority: Authority, done: Provisioned) -> None:
    """Whether a board that generates its own keys was certified, and whether that, or its claim, expires soon."""
    certified = [entry for entry in authority.issued if entry.name == device and entry.claim and entry.revoked is None]
    now = datetime.now(timezone.utc)
    if not certified:
        (done.unclaimed if ends(claim) > now else done.ending).append(device)
    elif datetime.fromisoformat(certified[-1].ends) - RENEW_BEFORE < now:
        done.ending.append(device)


def write_public(path: Path, private_pem: bytes) -> None:
    """Write the public key of a signing key, if missing."""
    key = serialization.load_pem_private_key(private_pem, password=None)
    assert isinstance(key, Ed25519PrivateKey)
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    pem = key.public_key().public_bytes(encoding, form)
    if not path.exists() or path.read_bytes() != pem:
        save_public_key(key.public_key(), path)


def _graph(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_FILE)
    except OSError as error:
        raise ConfigError(f"'graph' {path}: {error.strerror}; give an ONNX file") from None


def _first_graph(manifest: Manifest, device: DevicePlan) -> bytes:
    prototype = device.tables["model"]["prototype"]
    return first_graph(manifest.out / FLEET / "graphs", manifest.first_models, prototype)


def _files(
    device: DevicePlan, run: _Run, secrets: Mapping[str, KitFile], sets: Mapping[str, WheelSet]
) -> Mapping[str, KitFile]:
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    files = {
        "agent.toml": KitFile(agent_toml(device.tables).encode()),
        "aggregator.pub": KitFile(run.aggregator.public_bytes(*form)),
        "install.sh": KitFile(install_script(_install(device, run, sets)).encode(), 0o755),
        "report.json": KitFile(_report_to(device.id, run.manifest)),
        "report_failure.py": KitFile(read_regular(report_failure.__file__, MAX_FILE)),
        "tls/ca.pem": KitFile(run.authority.pem),
        **secrets,
        **{f"locks/py{made.target.python}.txt": KitFile(made.lock().encode()) for made in sets.values()},
        UNIT: KitFile(_unit(device).encode()),
    }
    if (profile := own_profile(device.board.name, run.manifest.boards_dir)) is not None:
        files[PROFILE] = KitFile(read_regular(profile, MAX_FILE))
    if run.manifest.wheels != "none":  # else packages are not edgestill's to install
        own, key = device.tables["agent"], run.kit_key.public_key()
        files |= upgrader_files(run.manifest.fleet, device.id, state_dir=own["state_dir"], key=key)
    if run.manifest.fetch is not None:
        files["fetch_wheels.py"] = KitFile(read_regular(fetch_wheels.__file__, MAX_FILE))
    if device.graph is not None:
        files["model.onnx"] = KitFile(_graph(device.graph))
    elif device.first_graph:
        files["model.onnx"] = KitFile(_first_graph(run.manifest, device))
    # another kit is another instance: cloud-init then processes its files again
    instance = digest_of(file.data for _, file in sorted(files.items()))[:12]
    for family in device.os:
        boot = boot_files(family, device=device.id, wifi=device.wifi, instance=instance)
        # files with a Wi-Fi key are readable only by their owner
        files |= {f"boot/{family}/{name}": KitFile(text.encode(), 0o600) for name, text in boot.items()}
    return files


def _unit(device: DevicePlan) -> str:
    return unit(device.board, data=device.tables["data"]["path"], train_mb=device.tables["train"].get("memory_mb"))


def _report_to(device: str, manifest: Manifest) -> bytes:
    """What `report_failure.py` needs to know."""
    facts = {"fleet": manifest.fleet, "device": device, "host": manifest.host, "port": manifest.port}
    return msgspec.json.encode(facts) + b"\n"


def _install(device: DevicePlan, run: _Run, sets: Mapping[str, WheelSet]) -> Install:
    torch = device.torch
    need = 0
    if run.manifest.wheels in ("card", "fleet"):
        need = max(made.installed for made in sets.values()) // 10**6 + VENV_MB
    return Install(
        arch=device.board.arch,
        wheels=run.manifest.wheels,
        fetch=run.manifest.fetch is not None,
        index=None if torch is None else torch.index,
        system_packages=torch is not None and torch.requirement is None,
        need_mb=need,
    )
