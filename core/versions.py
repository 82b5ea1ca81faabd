"""Versions of edgestill and its dependencies, read from package metadata: nothing heavy is imported."""

from __future__ import annotations

import platform
from importlib import metadata

__all__ = ["versions"]

PACKAGES = ("edgestill", "torch", "brevitas", "numpy", "onnx", "onnxruntime", "safetensors", "msgspec", "paho-mqtt")


def versions() -> dict[str, str]:
    """Name to version; `not installed` for packages of other extras."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
