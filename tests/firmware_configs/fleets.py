"""Small manifests for tests."""

from __future__ import annotations

from pathlib import Path

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
    path.write_text(f"{fleet}\n[provision]\n{provision}\n{groups}")
    return path


def manifest(folder: Path, groups: str = PI, **parts: str) -> Manifest:
    return load_manifest(write_manifest(folder, groups, **parts), environ={})


def write_secrets(folder: Path, mode: int = 0o600) -> Path:
    """A secrets.toml with one network."""
    path = folder / "secrets.toml"
    path.write_text('[wifi.home]\nssid = "IEEE"\npassword = "password"\ncountry = "DE"\n')
    path.chmod(mode)
    return path
