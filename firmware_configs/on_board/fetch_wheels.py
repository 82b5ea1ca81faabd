"""Fetches the wheels that a board lacks from the fleet's machine (`edgestill kit serve`), without edgestill.

    python3 -I fetch_wheels.py --lock LOCK --to FOLDER [--find-links FOLDER ...] [--spare-mb N] [--installed]

`kit.json`, next to it, has the address (`fetch`), and SHA-256 and size of each wheel (`wheels`); the lock names those
of this Python. What a folder of `--find-links` has with its hash, or what is installed already, is not fetched. A
transfer that was interrupted goes on where it was (`Range`), also by a later run. A wheel is used when it has its hash,
so the connection need not be trusted; over https the system's authorities and the kit's are.

    GET URL/SHA256/FILE.whl
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import ssl
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import quote, urlsplit

__all__ = ["FetchError", "Wheel", "fetch", "main", "named_wheels"]

ENTRY = re.compile(r"^# ([A-Za-z0-9_][A-Za-z0-9._+-]*\.whl)\n([a-z0-9-]+)==(\S+) ", re.MULTILINE)
TIMEOUT_S = 30.0
ATTEMPTS = 5  # in a row that bring nothing
FIRST_WAIT_S = 1.0  # doubled after each of them
PIECE = 1 << 18
MB = 10**6


class FetchError(Exception):
    """What is wrong, in one line; trying again now does not help."""


@dataclass(frozen=True)
class Wheel:
    """A wheel of the lock."""

    file: str
    name: str
    version: str
    sha256: str
    size: int

    def is_at(self, path: Path) -> bool:
        """Whether the file is this wheel."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
        return digest.hexdigest() == self.sha256

    def is_installed(self) -> bool:
        """Whether the Python that runs this has it."""
        try:
            return metadata.version(self.name) == self.version
        except metadata.PackageNotFoundError:
            return False


def named_wheels(lock: str, kit: dict[str, dict[str, dict[str, object]]]) -> Iterator[Wheel]:
    """The wheels of a lock, with what kit.json says of them."""
    for file, name, version in ENTRY.findall(lock):
        facts = kit["wheels"][file]
        yield Wheel(file, name, version, str(facts["sha256"]), int(str(facts["bytes"])))


def fetch(url: str, wheel: Wheel, folder: Path, ca: Path | None = None) -> None:
    """Fetch one wheel to `folder`; gives up after some attempts that bring nothing."""
    part = folder / f".{wheel.sha256}.part"
    attempts, wait = ATTEMPTS, FIRST_WAIT_S
    while True:
        before = part.stat().st_size if part.is_file() else 0
        try:
            _go_on(url, wheel, part, ca)
            break
        except (OSError, http.client.HTTPException) as error:
            why = f"{url}: {wheel.file}: {' '.join(str(error).split()) or type(error).__name__}"
        gained = (part.stat().st_size if part.is_file() else 0) - before
        attempts, wait = (ATTEMPTS, FIRST_WAIT_S) if gained > 0 else (attempts - 1, wait * 2)
        if attempts == 0:
            raise FetchError(why)
        time.sleep(wait)
    if not wheel.is_at(part):
        part.unlink()
        raise FetchError(f"{url}: {wheel.file}: not the wheel of the kit; there, try `edgestill kit verify`")
    os.replace(part, folder / wheel.file)


def _go_on(url: str, wheel: Wheel, part: Path, ca: Path | None) -> None:
    """Fetch what is missing of one wheel, with a single request."""
    have = part.stat().st_size if part.is_file() else 0
    if have >= wheel.size:
        return
    place = urlsplit(url)
    link = _connection(place.scheme, place.hostname or "", place.port, ca)
    try:
        path = f"{place.path.rstrip('/')}/{wheel.sha256}/{quote(wheel.file, safe='+')}"
        link.request("GET", path, headers={"Range": f"bytes={have}-"} if have else {})
        answer = link.getresponse()
        if answer.status == 404:
            raise FetchError(f"{url}: has no {wheel.file}; provision the fleet again, and flash the new kit")
        if answer.status not in (200, 206):
            raise OSError(f"status {answer.status}")
        if answer.status == 200:  # a server that sends whole files only
            have = 0
        elif not (answer.getheader("Content-Range") or "").startswith(f"bytes {have}-"):
            raise OSError("the answer is another part than was asked for")
        _write(answer, part, have, wheel.size)
    finally:
        link.close()


def _write(answer: http.client.HTTPResponse, part: Path, have: int, size: int) -> None:
    """Append to the part from byte `have` on; no more than the wheel has, whatever is sent."""
    with part.open("r+b" if have else "wb") as file:
        file.seek(have)
        while have < size:
            piece = answer.read1(min(PIECE, size - have))
            if not piece:
                raise OSError(f"the connection ended after {have} of {size} bytes")
            file.write(piece)
            have += len(piece)
        file.flush()
        os.fsync(file.fileno())


def _connection(scheme: str, host: str, port: int | None, ca: Path | None) -> http.client.HTTPConnection:
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    context = ssl.create_default_context()
    if ca is not None:
        context.load_verify_locations(ca)
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


def main(here: Path, lock: Path, to: Path, have: Iterable[Path], *, spare_mb: int = 0, installed: bool = False) -> str:
    """Fetch what is missing to `to`; returns what was done, in one line."""
    kit = json.loads((here / "kit.json").read_text())
    url, folders = str(kit["fetch"]["url"]), [*have, to]
    wheels = [w for w in named_wheels(lock.read_text(), kit) if not (installed and w.is_installed())]
    missing = [wheel for wheel in wheels if not any(wheel.is_at(folder / wheel.file) for folder in folders)]
    if not missing:
        return "all wheels are here"
    to.mkdir(parents=True, exist_ok=True)
    parts = 0
    for part in to.glob(".*.part"):
        if part.name[1:65] in {wheel.sha256 for wheel in missing}:
            parts += part.stat().st_size
        else:
            part.unlink()  # of an earlier kit
    size, free = sum(wheel.size for wheel in missing), shutil.disk_usage(to).free
    if free < size - parts + spare_mb * MB:
        what = f"the wheels take {(size - parts) // MB} MB, and {spare_mb} MB once they are installed"
        raise FetchError(f"{free // MB} MB are free in {to}, and {what}")
    sys.stdout.write(f"edgestill: fetching {len(missing)} wheels, {size / MB:.1f} MB, from {url}\n")
    sys.stdout.flush()
    for wheel in missing:
        for folder in folders:  # of two files with one name pip might take the damaged one
            with contextlib.suppress(OSError):
                (folder / wheel.file).unlink()
        fetch(url, wheel, to, here / "tls/ca.pem")
    return f"{len(missing)} wheels are fetched and have their hashes"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--find-links", type=Path, action="append", default=[])
    parser.add_argument("--spare-mb", type=int, default=0)
    parser.add_argument("--installed", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    given, kit_folder = _arguments(), Path(__file__).resolve().parent
    try:
        done = main(
            kit_folder,
            given.lock,
            given.to,
            given.find_links,
            spare_mb=given.spare_mb,
            installed=given.installed,
        )
    except (FetchError, OSError, ValueError, KeyError, TypeError) as problem:
        sys.stderr.write(f"edgestill: {' '.join(str(problem).split()) or type(problem).__name__}\n")
        sys.exit(1)
    sys.stdout.write(f"edgestill: {done}\n")
