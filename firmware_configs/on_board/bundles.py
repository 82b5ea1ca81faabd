"""Opens a bundle of another version of edgestill, without edgestill: its signature first, then all else.

    bytes  field
    19     "edgestill bundle 1", and a line feed
    4      size of the manifest, big-endian
    m      the manifest, JSON: firmware_configs/kits/upgrades/bundle.py
    64     Ed25519 of the fleet's kit key, over the first 19 bytes and the manifest
    rest   the wheels that travel with it, in the order of the manifest

openssl checks the signature, as it makes those of report_failure.py: a board's system has no other Ed25519.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

__all__ = ["MAGIC", "MAX_BUNDLE", "RefusedError", "copy_bundle", "newer", "open_bundle", "openssl_verifies", "unpack"]

MAGIC = b"edgestill bundle 1\n"
MAX_BUNDLE, MAX_MANIFEST = 512 * 2**20, 4 * 2**20
PIECE = 1 << 18
WHEEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*\.whl")


class RefusedError(Exception):
    """Why a bundle is not installed, in one line."""


def open_bundle(file: IO[bytes], verify: Callable[[bytes, bytes], bool]) -> dict[str, Any]:
    """The manifest of a bundle, once its signature is right; the file is then at its first wheel."""
    head = file.read(len(MAGIC) + 4)
    size = int.from_bytes(head[len(MAGIC) :], "big")
    if head[: len(MAGIC)] != MAGIC or not 0 < size <= MAX_MANIFEST:
        raise RefusedError("not a bundle of edgestill")
    manifest, signature = file.read(size), file.read(64)
    if len(signature) != 64 or not verify(MAGIC + manifest, signature):
        raise RefusedError("the signature is not that of this fleet's kit key")
    facts: dict[str, Any] = json.loads(manifest)
    if facts["schema"] != 1:
        raise RefusedError(f"a bundle of schema {facts['schema']}; push a newer kit")
    return facts


def newer(version: str, than: str) -> bool:
    """Whether a version is at least as new as another, by the numbers of the release.

    >>> newer("0.10.0+k1", "0.9.1"), newer("0.3.0", "0.3.0+k2"), newer("0.2.9", "0.3")
    (True, True, False)
    """
    mine, other = ([int(part) for part in re.split(r"[^0-9.]", text)[0].split(".") if part] for text in (version, than))
    width = max(len(mine), len(other))
    return mine + [0] * (width - len(mine)) >= other + [0] * (width - len(other))


def openssl_verifies(key: str) -> Callable[[bytes, bytes], bool]:
    """Ed25519 by openssl, which wants files with a size: these need no room on a disk."""

    def verify(data: bytes, signature: bytes) -> bool:
        with os.fdopen(os.memfd_create("data"), "wb") as one, os.fdopen(os.memfd_create("signature"), "wb") as two:
            for file, content in ((one, data), (two, signature)):
                file.write(content)
                file.flush()
            places = [f"/proc/self/fd/{file.fileno()}" for file in (one, two)]
            command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", key]
            command += ["-in", places[0], "-sigfile", places[1]]
            held = [one.fileno(), two.fileno()]
            return subprocess.run(command, capture_output=True, pass_fds=held, check=False).returncode == 0

    return verify


def copy_bundle(source: IO[bytes], target: Path) -> str:
    """Copy a file, at most as much as a bundle may have; returns its digest."""
    digest, left = hashlib.sha256(), MAX_BUNDLE
    with target.open("wb") as out:
        while left > 0 and (piece := source.read(min(PIECE, left))):
            digest.update(piece)
            out.write(piece)
            left -= len(piece)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def unpack(file: IO[bytes], wheels: dict[str, dict[str, Any]], folder: Path) -> None:
    """The wheels of a bundle, each with its hash."""
    folder.mkdir()
    for name, facts in wheels.items():
        if not WHEEL.fullmatch(name):
            raise RefusedError(f"{name[:80]!r} is not the name of a wheel")
        digest, left = hashlib.sha256(), int(facts["bytes"])
        with (folder / name).open("wb") as out:
            while left > 0 and (piece := file.read(min(PIECE, left))):
                digest.update(piece)
                out.write(piece)
                left -= len(piece)
        if left or digest.hexdigest() != facts["sha256"]:
            raise RefusedError(f"{name} is not the wheel that was signed")
