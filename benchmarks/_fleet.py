"""Files of a fleet for benchmarks: an aggregator's keys and fleet.toml, agents' keys and agent.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wire.keys import Ed25519PrivateKey, Ed25519PublicKey, generate_key, public_key_hex, save_private_key

__all__ = ["FLEET", "device_names", "write_agent", "write_fleet"]

FLEET = "bench"


def device_names(count: int) -> list[str]:
    """Ids of so many devices."""
    return [f"bench-{i:04d}" for i in range(count)]


def write_fleet(
    home: Path,
    *,
    port: int,
    prototype: str,
    shape: str,
    rounds: int,
    devices: Mapping[str, Ed25519PrivateKey],
    others: Mapping[str, Ed25519PrivateKey] | None = None,
) -> Ed25519PrivateKey:
    """`home`/fleet.toml of a fleet whose rounds wait for all `devices` and which knows `others`; its signing key."""
    home.mkdir(parents=True)
    key = generate_key()
    save_private_key(key, home / "aggregator.key")
    lines = [
        f'[fleet]\nid = "{FLEET}"',
        f"[broker]\nport = {port}",
        '[state]\ndir = "state"\nkey = "aggregator.key"',
        f'[task]\ninput_shape = "{shape}"\nclasses = 10',
        f'[prototypes]\nnames = ["{prototype}"]',
        f"[round]\nrounds = {rounds}\nmin_devices = {len(devices)}",
        "[train]\nlr = 0.01\nsteps = 2",
        "[devices]",
        *(
            f'{name} = {{ key = "{public_key_hex(device.public_key())}" }}'
            for name, device in {**devices, **(others or {})}.items()
        ),
    ]
    (home / "fleet.toml").write_text("\n".join([*lines, ""]))
    return key


def write_agent(home: Path, *, port: int, prototype: str, key: Ed25519PrivateKey, aggregator: Ed25519PublicKey) -> None:
    """`home`/agent.toml of the device called like the folder; its samples are data.npz beside the folder."""
    home.mkdir(parents=True)
    save_private_key(key, home / "device.key")
    lines = [
        f'[agent]\nfleet = "{FLEET}"\ndevice = "{home.name}"\nstate_dir = "state"\nboard = "bench"',
        f"[broker]\nport = {port}",
        f'[keys]\nprivate = "device.key"\naggregator = "{public_key_hex(aggregator)}"',
        f'[model]\nprototype = "{prototype}"',
        '[data]\npath = "../data.npz"',
    ]
    (home / "agent.toml").write_text("\n".join([*lines, ""]))
