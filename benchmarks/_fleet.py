"""Files of a fleet for benchmarks: an aggregator's keys and fleet.toml, agents' keys and agent.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from core.toml_writer import Inline, toml_text
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey, generate_key, public_key_hex, save_private_key

__all__ = ["FLEET", "device_names", "write_agent", "write_fleet"]

FLEET = "bench"


def device_names(count: int) -> list[str]:
    """Ids of `count` devices."""
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
    """Write `home`/fleet.toml of a fleet whose rounds wait for all `devices`; `others` are known too."""
    home.mkdir(parents=True)
    key = generate_key()
    save_private_key(key, home / "aggregator.key")
    known = {**devices, **(others or {})}
    tables = {
        "fleet": {"id": FLEET},
        "broker": {"port": port},
        "state": {"dir": "state", "key": "aggregator.key"},
        "task": {"input_shape": shape, "classes": 10},
        "prototypes": {"names": [prototype]},
        "round": {"rounds": rounds, "min_devices": len(devices)},
        "train": {"lr": 0.01, "steps": 2},
        "devices": {name: Inline(key=public_key_hex(device.public_key())) for name, device in known.items()},
    }
    (home / "fleet.toml").write_text(toml_text(tables))
    return key


def write_agent(home: Path, *, port: int, prototype: str, key: Ed25519PrivateKey, aggregator: Ed25519PublicKey) -> None:
    """Write `home`/agent.toml of the device named like the folder; its samples are data.npz in the parent folder."""
    home.mkdir(parents=True)
    save_private_key(key, home / "device.key")
    tables = {
        "agent": {"fleet": FLEET, "device": home.name, "state_dir": "state", "board": "bench"},
        "broker": {"port": port},
        "keys": {"private": "device.key", "aggregator": public_key_hex(aggregator)},
        "model": {"prototype": prototype},
        "data": {"path": "../data.npz"},
    }
    (home / "agent.toml").write_text(toml_text(tables))
