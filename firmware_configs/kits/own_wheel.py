"""edgestill's own wheel, made from the package that runs: never from an index, where others could own the name.

From a source tree (also an editable install) the wheel has every file of its packages and metadata from pyproject.toml;
from an installed wheel it has the files of its RECORD. `make_wheel` is also how wheels of the user's packages are made
reproducible: the bytes depend on the content alone, entries are sorted and have a fixed time. The content's digest is
a part of the version (`0.3.0+k1f9a3c27`), so that pip on a board installs a changed package of the same version, and
leaves an unchanged one as it is.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from core.config_keys import read_toml
from core.errors import ConfigError

__all__ = ["Wheel", "make_wheel", "own_wheel", "project", "zipped"]

ROOT = Path(__file__).resolve().parents[2]
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip file can hold
#: Files of an installation that its wheel did not have.
INSTALLED = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
VERSION = re.compile(r"^Version: *(\S+)$", re.MULTILINE)
TAG = "py3-none-any"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that was made here."""

    name: str  # as in its file name
    version: str
    file: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Its digest, in hex."""
        return hashlib.sha256(self.data).hexdigest()


@functools.cache
def own_wheel() -> Wheel:
    """The wheel of the edgestill that runs."""
    if (ROOT / "pyproject.toml").is_file():
        return make_wheel("edgestill", _source_files(ROOT))
    try:
        return make_wheel("edgestill", _installed_files(metadata.distribution("edgestill")))
    except metadata.PackageNotFoundError:
        raise ConfigError(f"{ROOT}: edgestill is neither installed nor a source tree; install it with pip") from None


def make_wheel(name: str, files: Mapping[str, bytes], tag: str = TAG) -> Wheel:
    """A wheel of `files`, by path; those below `INFO/` are its metadata, METADATA and WHEEL among them."""
    text = files["INFO/METADATA"].decode()
    found = VERSION.search(text)
    if found is None:
        raise ConfigError(f"{name}: its metadata has no version")
    version = _with_digest(found[1], _digest(files))
    info = f"{name}-{version}.dist-info"
    own = {**files, "INFO/METADATA": VERSION.sub(f"Version: {version}", text, count=1).encode()}
    placed = {path.replace("INFO", info, 1) if path.startswith("INFO/") else path: own[path] for path in own}
    lines = [f"{path},sha256={_record_digest(data)},{len(data)}\n" for path, data in sorted(placed.items())]
    placed[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    return Wheel(name, version, f"{name}-{version}-{tag}.whl", zipped(placed, level=9))


def project(root: Path) -> dict[str, Any]:
    """The table [project] of a source tree's pyproject.toml."""
    return dict(read_toml(root / "pyproject.toml")["project"])


def _source_files(root: Path) -> dict[str, bytes]:
    """The packages of a source tree: every folder at its top that pyproject.toml includes."""
    include = read_toml(root / "pyproject.toml")["tool"]["setuptools"]["packages"]["find"]["include"]
    files = {}
    for package in include:
        for path in sorted((root / package.rstrip("*")).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
                files[path.relative_to(root).as_posix()] = path.read_bytes()
    about = project(root)
    scripts = "".join(f"{name} = {target}\n" for name, target in about["scripts"].items())
    return {
        **files,
        "INFO/METADATA": "".join(_metadata(about, root)).encode(),
        "INFO/WHEEL": f"Wheel-Version: 1.0\nGenerator: edgestill\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode(),
        "INFO/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
    }


def _metadata(about: Mapping[str, Any], root: Path) -> Iterator[str]:
    found = re.search(r'^__version__ = "(.+)"$', (root / "edgestill/__init__.py").read_text(), re.MULTILINE)
    assert found is not None
    yield f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {found[1]}\n"
    yield f"Summary: {about['description']}\nRequires-Python: {about['requires-python']}\n"
    yield from (f"Requires-Dist: {requirement}\n" for requirement in about["dependencies"])
    for extra, requirements in about["optional-dependencies"].items():
        yield f"Provides-Extra: {extra}\n"
        yield from (f"Requires-Dist: {_of_extra(requirement, extra)}\n" for requirement in requirements)


def _of_extra(requirement: str, extra: str) -> str:
    """A requirement of an extra; its own marker, if it has one, stays.

    >>> print(_of_extra("build>=1; python_version >= '3.11'", "dev"))
    build>=1; (python_version >= '3.11') and extra == "dev"
    """
    name, _, marker = (part.strip() for part in requirement.partition(";"))
    return f'{name}; ({marker}) and extra == "{extra}"' if marker else f'{name}; extra == "{extra}"'


def _installed_files(distribution: metadata.Distribution) -> dict[str, bytes]:
    files = {}
    for path in distribution.files or ():
        parts = path.parts
        if parts[0] == ".." or "__pycache__" in parts or path.is_absolute():
            continue  # commands and bytecode are made by pip
        if parts[0].endswith(".dist-info"):
            if path.name not in INSTALLED:
                files["/".join(("INFO", *parts[1:]))] = path.read_binary()
        else:
            files[path.as_posix()] = path.read_binary()
    if "core/errors.py" not in files:
        raise ConfigError("edgestill's installation has no list of its files; install it with pip")
    return files


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, data in sorted(files.items()):
        digest.update(f"{path}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:10]


def _with_digest(version: str, digest: str) -> str:
    """A local version, or a further part of one; `k` because a part of digits alone would lose its zeros."""
    return f"{version}{'.' if '+' in version else '+'}k{digest}"


def _record_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def zipped(files: Mapping[str, bytes], *, level: int | None = None) -> bytes:
    """A zip whose bytes depend on the files alone; `level` is zlib's, by default 6."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=level)
    return packed.getvalue()
