"""Small manifests for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from firmware_configs.manifest import Manifest, load_manifest

FLEET = """
[fleet]
id = "garden"
[state]
dir = "state"
key = "aggregator.key"
[task]
input_shape = [1, 8, 8]
classes = 3
latent = 8
[prototypes]
names = ["cnn:w1", "mlp:fp32"]
"""
#: What a fleet needs to be served over the broker that is provisioned with it.
SERVED = """
[fleet]
id = "garden"
[broker]
host = "127.0.0.1"
port = {port}
[broker.tls]
ca = "kits/_fleet/aggregator/ca.pem"
cert = "kits/_fleet/aggregator/aggregator.pem"
key = "kits/_fleet/aggregator/aggregator.key"
[devices]
keys_dir = "kits/_fleet/devices"
[state]
dir = "state"
key = "aggregator.key"
[task]
input_shape = [1, 8, 8]
classes = 3
latent = 8
[prototypes]
names = ["mlp:fp32"]
[round]
rounds = {rounds}
min_devices = {devices}
[train]
steps = 2
batch_size = 8
"""
SERVED_PI = """
[[group]]
name = "pi"
board = "rpi-4"
count = {count}
prototype = "mlp:fp32"
data = "{samples}"
"""
PI = """
[[group]]
name = "pi"
board = "rpi-4"
count = 2
prototype = "cnn:w1"
"""


def write_manifest(folder: Path, groups: str = PI, *, fleet: str = FLEET, provision: str = "") -> Path:
    """A fleet.toml in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fleet.toml"
    # edgestill's own wheel goes with every kit; the others are fetched by the tests of wheels alone
    wheels = "" if "wheels" in provision else 'wheels = "network"\n'
    path.write_text(f"{fleet}\n[provision]\n{wheels}{provision}\n{groups}")
    return path


def manifest(folder: Path, groups: str = PI, **parts: str) -> Manifest:
    return load_manifest(write_manifest(folder, groups, **parts), environ={})


def write_served(
    folder: Path,
    port: int,
    *,
    count: int,
    devices: int | None = None,
    rounds: int = 1,
    groups: str = "",
    served: str = SERVED,
) -> Path:
    """A fleet.toml of `count` Pis that is ready to be served, a round once `devices` are there; samples beside it."""
    y = np.arange(120) % 3
    x = np.random.default_rng(0).normal(0, 0.4, (120, 1, 8, 8)).astype(np.float32)
    np.savez(folder / "samples.npz", x=x, y=y)
    fleet = served.format(port=port, rounds=rounds, devices=count if devices is None else devices)
    pis = SERVED_PI.format(count=count, samples=folder / "samples.npz")
    return write_manifest(folder, pis + groups, fleet=fleet)


def write_secrets(folder: Path, mode: int = 0o600) -> Path:
    """A secrets.toml with one network."""
    path = folder / "secrets.toml"
    path.write_text('[wifi.home]\nssid = "IEEE"\npassword = "password"\ncountry = "DE"\n')
    path.chmod(mode)
    return path
