"""Whether a state folder can be served from: the journal is whole, and the blobs that it names are there.

A journal that is gone or damaged beside the blobs of a fleet is refused: beginning anew would give up every model of
it. SQLite has no checksums, so a flipped byte inside a value is found only where it makes a value impossible (its
type, its form, a name that nothing has, a digest that no blob has); blobs are compared by their SHA-256.
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
RESTORING = "restoring"  # a file that is there while a backup is put back


def check_before_opening(state: Path) -> None:
    """Refuse to make a new journal beside the blobs of an older one."""
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
    """Refuse a journal that is damaged, and models that devices could not get; log what else is missing."""
    for problem in problems_of(journal):
        raise StorageError(f"{state / 'journal.db'}: the journal is damaged: {problem}; {RESTORE}")
    current = {model.digest for model in journal.current().values()}
    for model in journal.models():
        try:
            if model.digest in current:
                blobs.check(model.digest, model.size)
            elif blobs.size(model.digest) != model.size:
                raise StorageError(f"blob {model.digest[:12]}… has not {model.size} bytes")
        except StorageError as error:
            if model.digest in current and not _can_go_back(journal, blobs, model.prototype):
                raise StorageError(f"the model of {model.prototype}: {error}; {RESTORE}") from None
            log.error("model %d of %s, round %d: %s", model.number, model.prototype, model.round, error)


def problems_of(journal: Journal) -> Iterator[str]:
    """What is wrong with the journal, as SQLite and its own records see it."""
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
    """Records that do not decode, or hold what they cannot hold."""
    try:
        rounds = journal.rounds()
        updates = [row for r in rounds for late in (False, True) for row in journal.updates(r.number, late=late)]
        named = [*(m.digest for m in journal.models()), *(u.digest for u in updates)]
        named += [i.model for r in rounds for i in journal.invitations(r.number)]
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
    """Whether an older model of the prototype is whole, so that the operator can roll back to it."""
    for model in reversed(journal.models(prototype)):
        try:
            blobs.check(model.digest, model.size)
        except StorageError:
            continue
        return True
    return False
