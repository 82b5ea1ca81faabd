"""Tiny wheels, made by hand: what is tested is who asks for them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def add_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    tag: str = "py3-none-any",
    requires: Sequence[str] = (),
    extras: Sequence[str] = (),
    files: dict[str, str] | None = None,
) -> None:
    """A wheel of a package that holds `files`."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {wanted}" for wanted in requires] + [f"Provides-Extra: {extra}" for extra in extras]
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as wheel:
        for path, text in (files or {}).items():
            wheel.writestr(path.replace("INFO", info), text)
        wheel.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
