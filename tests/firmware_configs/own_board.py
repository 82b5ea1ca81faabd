"""A manifest whose board is this machine: its kits can be installed here, below another root."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

ARCH = {"aarch64": "arm64", "x86_64": "amd64"}[platform.machine()]
PYTHON = "{}.{}".format(*sys.version_info[:2])
GROUP = f"""
[[group]]
name = "pc"
board = "generic-{ARCH}"
devices = ["pc"]
os = ["generic"]
python = "{PYTHON}"
prototype = "cnn:w1"
graph = "cnn.onnx"
[group.settings.train]
mode = "light"
"""


def own_board(folder: Path) -> str:
    """The group, in mode light; its graph is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cnn.onnx").write_bytes(b"graph")
    return GROUP
