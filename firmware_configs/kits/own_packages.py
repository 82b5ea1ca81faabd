"""The user's own packages, `[provision] packages`: what goes to boards beside edgestill.

    "./my_models"               a folder with a pyproject.toml: its wheel is built here
    "./dist/fast-1.0-cp311-….whl"   a wheel, as it is: for packages with compiled code, which is built for the board
    "scikit-image==0.25.*"      a requirement, resolved for the board from pip's index

Wheels of folders are packed again, so that their bytes depend on their content alone: kits/own_wheel.py. A copy of the
folder is built: nothing is left in it.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from core.errors import ConfigError
from firmware_configs.kits.own_wheel import Wheel, make_wheel
from firmware_configs.kits.resolve import parse_requirement, pip

__all__ = ["LocalWheel", "local_wheels", "named_requirements"]

LEFT_OUT = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", ".git", ".venv", "venv")
MOST_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class LocalWheel:
    """A wheel from a folder, or a file, of this machine."""

    wheel: Wheel
    requires: tuple[str, ...]  # Requires-Dist
    any_platform: bool


def is_path(text: str) -> bool:
    """Whether an entry of `packages` names a folder or a file, not a requirement."""
    return text.startswith((".", "/", "~")) or text.endswith(".whl")


def named_requirements(packages: Sequence[str]) -> list[str]:
    """Those entries that are requirements, checked."""
    return [str(parse_requirement(text)) for text in packages if not is_path(text)]


def local_wheels(packages: Sequence[str], base: Path) -> list[LocalWheel]:
    """The wheels of those entries that are folders or files; relative ones are below `base`."""
    return [_local(text, (base / Path(text).expanduser()).resolve()) for text in packages if is_path(text)]


def _local(text: str, path: Path) -> LocalWheel:
    if path.is_file() and path.suffix == ".whl":
        return _given(text, path)
    if not (path / "pyproject.toml").is_file() and not (path / "setup.py").is_file():
        raise ConfigError(f"packages: {text!r}: no folder with a pyproject.toml, and no wheel, is at {path}")
    with tempfile.TemporaryDirectory(prefix="edgestill-") as folder:
        source, out = Path(folder, "source", path.name), Path(folder, "out")
        shutil.copytree(path, source, ignore=LEFT_OUT, symlinks=True)
        _build(text, source, out)
        (built,) = out.glob("*.whl")
        name, _, tag = _file_parts(text, built)
        if not tag.endswith("-any"):
            raise ConfigError(
                f"packages: {text!r} has compiled code, for this machine; build its wheel for the board and name that"
            )
        files = _content(built)
        return LocalWheel(make_wheel(name, files, tag), _requires(files["INFO/METADATA"]), True)


def _build(text: str, source: Path, out: Path) -> None:
    """With the build tools that are installed, which needs no network; else with those that it asks pip for."""
    wheel = ["wheel", "--no-deps", "--wheel-dir", str(out)]
    try:
        pip(*wheel, "--no-build-isolation", str(source))
    except ConfigError:
        try:
            pip(*wheel, str(source))
        except ConfigError as error:
            raise ConfigError(f"packages: {text!r} cannot be built: {error}") from None


def _given(text: str, path: Path) -> LocalWheel:
    name, version, tag = _file_parts(text, path)
    if path.stat().st_size > MOST_BYTES:
        raise ConfigError(f"packages: {text!r} is larger than {MOST_BYTES:,} bytes")
    wheel = Wheel(name, version, path.name, path.read_bytes())
    return LocalWheel(wheel, _requires(_content(path)["INFO/METADATA"]), tag.endswith("-any"))


def _file_parts(text: str, path: Path) -> tuple[str, str, str]:
    """Name, version and tag of a wheel, as in its file name."""
    try:
        _, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise ConfigError(f"packages: {text!r}: {error}") from None
    parts = path.stem.split("-")
    return parts[0], str(version), "-".join(parts[-3:])


def _content(path: Path) -> dict[str, bytes]:
    """The files of a wheel; those of its dist-info folder below INFO/, without RECORD."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith(("/", ".dist-info/RECORD"))]
            placed = {name: archive.read(name) for name in names}
    except (zipfile.BadZipFile, OSError) as error:
        raise ConfigError(f"{path}: not a wheel ({error})") from None
    files = {}
    for name, data in placed.items():
        top, _, rest = name.partition("/")
        files[f"INFO/{rest}" if top.endswith(".dist-info") else name] = data
    if "INFO/METADATA" not in files:
        raise ConfigError(f"{path}: not a wheel: it has no METADATA")
    return files


def _requires(metadata: bytes) -> tuple[str, ...]:
    return tuple(message_from_bytes(metadata).get_all("Requires-Dist") or ())
