"""Download a dataset's original files from public mirrors: resumable, checksummed, atomic.

A download grows as `NAME.part`; `NAME.part.from` holds the URL and the server's validator (ETag or date), so that a
later attempt requests `Range: bytes=k-` with `If-Range` and a changed file starts over. Only a file with the right
checksum is renamed to its final name. A mirror is retried with growing pauses as long as attempts make progress.

Not pooch, which does not fulfil the promises of `docs/data.md`: its HTTP downloader restarts an interrupted download
from the beginning, supports one address per file and therefore no mirrors, and does not limit the size.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from core.errors import ConfigError, DataError, did_you_mean
from core.files import write_atomic
from fleet.data.download.http_get import Gone, Interrupted, get
from fleet.data.download.sources import SOURCES, RemoteFile
from fleet.data.files import data_folder
from fleet.data.registry import DATASETS

__all__ = ["TRIES", "Report", "fetch", "fetch_file"]

TRIES = 4  # consecutive attempts without progress, per mirror
_CHUNK = 1 << 16

Report = Callable[[str, int, int], None]  # file, bytes received, bytes in total
Sleep = Callable[[float], None]


def fetch(
    name: str,
    to: Path | None = None,
    *,
    mirror: str | None = None,
    report: Report | None = None,
    sleep: Sleep = time.sleep,
) -> list[Path]:
    """Download the files of a named dataset into `to`/NAME if they are missing or damaged, and return their paths."""
    if name not in DATASETS:
        raise ConfigError(f"unknown dataset {name!r}; known: {' '.join(SOURCES)}{did_you_mean(name, SOURCES)}")
    if name not in SOURCES:
        raise ConfigError(f"{name}: nothing to fetch, it comes with scikit-learn and is ready to use")
    if mirror is not None and (urlsplit(mirror).scheme not in ("http", "https") or not urlsplit(mirror).netloc):
        raise ConfigError(f"mirror {mirror!r}; give an http:// or https:// address of the folder that holds the files")
    folder = (to or data_folder()) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: {error.strerror or error}; give another folder with --to") from None
    mirrors = (mirror,) if mirror else None
    return [fetch_file(file, folder, mirrors=mirrors, report=report, sleep=sleep) for file in SOURCES[name]]


def fetch_file(
    file: RemoteFile,
    folder: Path,
    *,
    mirrors: tuple[str, ...] | None = None,
    report: Report | None = None,
    sleep: Sleep = time.sleep,
) -> Path:
    """Download one file into `folder`, unless it is there with the right checksum."""
    target = folder / file.name
    if target.is_file() and _matches(target, file.digest):
        return target
    part = folder / f"{file.name}.part"
    problems = []
    for base in mirrors or file.mirrors:
        url = f"{base.rstrip('/')}/{file.name}"
        try:
            _from_mirror(url, file, part, report or (lambda *_: None), sleep)
        except Gone as error:
            problems.append(f"{urlsplit(url).netloc}: {error}")
            continue
        os.replace(part, target)
        _origin(part).unlink(missing_ok=True)
        return target
    raise DataError(
        f"{file.name}: no mirror delivered it ({'; '.join(problems)}); are you offline? Try again, give --mirror URL, "
        f"or put the file into {folder} by hand"
    )


def _from_mirror(url: str, file: RemoteFile, part: Path, report: Report, sleep: Sleep) -> None:
    """Fill `part` with the whole file, or raise `Gone`."""
    failures, most = 0, _size(part)
    maybe_stale = most > 0  # an earlier part may belong to another file
    while True:
        try:
            _attempt(url, file, part, report)
            if _matches(part, file.digest):
                return
            _discard(part)
            if not maybe_stale:
                raise Gone("wrong checksum: a different or a damaged file")
            maybe_stale, most = False, 0  # once more from the start
        except Interrupted as error:
            failures = 0 if _size(part) > most else failures + 1
            most = max(most, _size(part))
            if failures >= TRIES:
                raise Gone(f"{error} ({TRIES} times)") from None
            sleep(2.0 ** max(failures - 1, 0))


def _attempt(url: str, file: RemoteFile, part: Path, report: Report) -> None:
    """Continue `part`, or restart it if the server requires that; returns when it is complete."""
    have = _size(part)
    with get(url, start=have, validator=_validator(part, url)) as answer:
        if answer.nothing_left:
            if answer.total != have:
                _discard(part)
                raise Interrupted("the kept part is longer than the file")
            return
        if answer.start == 0:
            have = 0
        write_atomic(_origin(part), f"{url}\n{answer.validator}\n")
        total = answer.total or file.size
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_APPEND if answer.start else os.O_TRUNC)
        with os.fdopen(os.open(part, flags, 0o644), "wb") as sink:
            while chunk := answer.read(_CHUNK):
                have += len(chunk)
                if have > file.size:
                    sink.close()
                    _discard(part)
                    raise Gone(f"it sends more than the {file.size:,} bytes of the file")
                sink.write(chunk)
                report(file.name, have, total)
        if answer.total is not None and have < answer.total:
            raise Interrupted(f"the connection ended after {have:,} of {answer.total:,} bytes")


def _origin(part: Path) -> Path:
    return part.with_name(part.name + ".from")


def _validator(part: Path, url: str) -> str:
    """The validator that this URL sent when the part was started; empty if unknown."""
    try:
        begun, validator = _origin(part).read_text().split("\n")[:2]
    except (OSError, ValueError):
        return ""
    return validator if begun == url and re.fullmatch(r"[\x20-\x7e]*", validator) else ""


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _origin(part).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _matches(path: Path, digest: str) -> bool:
    kind, expected = digest.split(":")
    actual = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            actual.update(chunk)
    return actual.hexdigest() == expected
