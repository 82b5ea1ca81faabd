"""Checks that a state folder is usable: the journal is intact, and the blobs that it names exist.

A missing or damaged journal is refused if the blobs of a fleet exist: a new journal would lose all of its models.
SQLite has no checksums, so a flipped byte inside a value is detected only if the value becomes invalid (its type, its
form, an unknown name, a digest without a blob); blobs are verified by their SHA-256.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import RESTORE, Journal
from core.errors import EdgestillError, StorageError
from wire.ids import DIGEST

__all__ = ["RESTORE", "RESTORING", "check_before_opening", "check_state", "problems_of"]

log = logging.getLogger("edgestill.aggregator")
RESTORING = "restoring"  # a file that exists while a backup is restored


def check_before_opening(state: Path) -> None:
    """Refuse to create a new journal if blobs of an older one exist."""
    journal = state / "journal.db"
    if (state / RESTORING).exists():
        raise StorageError(f"{state}: a restore was interrupted; run `edgestill aggregator restore --force` again")
    if journal.is_file() and journal.stat().st_size:
        return
    count = sum(bool(DIGEST.fullmatch(path.name)) for path in (state / "blobs").glob("*"))
    if count:
        raise StorageError(
            f"{journal}: the journal is {'empty' if journal.is_file() else 'missing'}, but blobs/ holds {count} files"
            f" of a fleet; {RESTORE}, or move {state} away to begin a new fleet"
        )


def check_state(journal: Journal, blobs: Blobs, state: Path) -> None:
    """Refuse a damaged journal, and current models that are missing; log other missing blobs."""
    for problem in problems_of(journal):
        raise StorageError(f"{state / 'journal.db'}: the journal is damaged: {problem}; {RESTORE}")
    current = {model.digest for model in journal.current().values()}
    pruned = journal.pruned()
    for model in journal.models():
        if model.number in pruned and model.digest not in current:
            continue
        try:
            if model.digest in current:
                blobs.check(model.digest, model.size)
            elif blobs.size(model.digest) != model.size:
                raise StorageError(f"blob {model.digest[:12]}… has not {model.size} bytes")
        except StorageError as error:
            if model.digest in current and not _can_go_back(journal, blobs, model.prototype):
                raise StorageError(f"the model of {model.prototype}: {error}; {RESTORE}") from None
            log.error(
                "model %d of %s, round %d: %s",
                model.number,
                model.prototype,
                model.round,
                error,
                extra={"round": model.round},
            )


def problems_of(journal: Journal) -> Iterator[str]:
    """Problems of the journal found by SQLite and by decoding its records."""
    try:
        for (text,) in journal.db.execute("PRAGMA integrity_check(3)"):
            if text != "ok":
                yield " ".join(str(text).split())
        for table, *_ in journal.db.execute("PRAGMA foreign_key_check"):
            yield f"a row of {table} names something that is not there"
        yield from _unreadable(journal)
    except sqlite3.Error as error:
        yield str(error)


def _unreadable(journal: Journal) -> Iterator[str]:
    """Records that do not decode or have invalid values."""
    try:
        rounds = journal.rounds()
        updates = [row for r in rounds for late in (False, True) for row in journal.updates(r.number, late=late)]
        named = [*(m.digest for m in journal.models()), *(u.digest for u in updates)]
        named += [i.model for r in rounds for i in journal.invitations(r.number)]
        named += [j.model for j in journal.jobs("open", "lapsed", "answered", "ended")]
        named += [row.digest for row in journal.buffer()]
        journal.devices()
        int(journal.get("epoch", "0"))
        for (value,) in journal.db.execute("SELECT value FROM meta WHERE key LIKE '%:%'"):
            json.loads(value)
    except (EdgestillError, TypeError, ValueError) as error:
        yield f"a record cannot be read: {error}"
        return
    for digest in named:
        if not DIGEST.fullmatch(digest):
            yield f"{digest!r} is no digest"
    if journal.get("hold", "running") not in ("running", "paused", "stopped"):
        yield f"hold is {journal.get('hold')!r}"


def _can_go_back(journal: Journal, blobs: Blobs, prototype: str) -> bool:
    """Whether an older model of the prototype is intact, so that the operator can roll back to it."""
    for model in reversed(journal.models(prototype)):
        try:
            blobs.check(model.digest, model.size)
        except StorageError:
            continue
        return True
    return False
