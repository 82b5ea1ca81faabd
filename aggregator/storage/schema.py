"""The tables of the journal, its connections, and migrations of older journals.

SQLite in WAL mode with synchronous=FULL: a committed transaction survives a power cut, readers never wait for the
writer. The schema has a version (`PRAGMA user_version`). An older journal is migrated in one transaction when the
service opens it, after saving a copy in the same folder; a newer one is refused.

    1   edgestill 0.1
    2   updates.excluded
    3   models.metrics: `accuracy` is that at the prototype's own precision, `accuracy_float` that with float weights
    4   devices.compute, devices.data
    5   asynchronous rounds: jobs, rounds.buffer and staleness; updates are numbered in the order of acceptance, and
        have the `job` that they answer (0: an invitation) and the round in which they are `counted`
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from core.errors import ConfigError

__all__ = ["SCHEMA", "connect"]

SCHEMA = 5
_JOBS = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, round INTEGER NOT NULL REFERENCES rounds, version INTEGER NOT NULL,
    device TEXT NOT NULL, prototype TEXT NOT NULL, model TEXT NOT NULL, side_artifact TEXT, turn INTEGER NOT NULL,
    given REAL NOT NULL, deadline REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'lapsed', 'answered', 'ended'))
);
CREATE INDEX jobs_by_state ON jobs (state, device) WHERE state IN ('open', 'lapsed');
CREATE INDEX jobs_by_round ON jobs (round, device);
CREATE INDEX jobs_by_device ON jobs (device, number);
CREATE INDEX jobs_by_model ON jobs (model);
"""
_UPDATES = """
CREATE TABLE updates (
    number INTEGER PRIMARY KEY, device TEXT NOT NULL, round INTEGER NOT NULL REFERENCES rounds, transfer TEXT NOT NULL,
    digest TEXT NOT NULL, size INTEGER NOT NULL, prototype TEXT NOT NULL, kind TEXT NOT NULL,
    num_examples INTEGER NOT NULL, nonce BLOB NOT NULL, received REAL NOT NULL, late INTEGER NOT NULL,
    metrics TEXT NOT NULL, excluded TEXT NOT NULL, job INTEGER NOT NULL, counted INTEGER REFERENCES rounds,
    UNIQUE (device, transfer), UNIQUE (device, nonce)
);
CREATE UNIQUE INDEX one_update_of_a_job ON updates (device, round, job);
CREATE INDEX updates_by_round ON updates (round);
CREATE INDEX updates_by_fusion ON updates (counted);
"""
#: Statements that make a journal of schema n + 1 from one of schema n, by n. Never change one that was released.
MIGRATIONS = {
    1: """
ALTER TABLE updates ADD COLUMN excluded TEXT NOT NULL DEFAULT '';
""",
    2: """
UPDATE models SET metrics = json_remove(
    json_set(metrics,
        '$.accuracy_float', json_extract(metrics, '$.accuracy'),
        '$.accuracy', json_extract(metrics, '$.accuracy_quantized')),
    '$.accuracy_quantized', '$.loss', '$.average_accuracy')
WHERE json_extract(metrics, '$.accuracy_quantized') IS NOT NULL;
""",
    3: """
ALTER TABLE devices ADD COLUMN compute TEXT NOT NULL DEFAULT '';
ALTER TABLE devices ADD COLUMN data TEXT NOT NULL DEFAULT '';
""",
    4: f"""
ALTER TABLE rounds ADD COLUMN buffer INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rounds ADD COLUMN staleness REAL NOT NULL DEFAULT 0;
{_JOBS}
ALTER TABLE updates RENAME TO updates_before;
DROP INDEX updates_by_round;
{_UPDATES}
INSERT INTO updates (device, round, transfer, digest, size, prototype, kind, num_examples, nonce, received, late,
    metrics, excluded, job, counted)
    SELECT device, round, transfer, digest, size, prototype, kind, num_examples, nonce, received, late, metrics,
        excluded, 0, CASE WHEN late THEN NULL ELSE round END
    FROM updates_before ORDER BY received, device;
DROP TABLE updates_before;
""",
}
_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE devices (
    id TEXT PRIMARY KEY, prototype TEXT, board TEXT NOT NULL DEFAULT '', examples INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'unknown', session INTEGER NOT NULL DEFAULT 0, seen REAL NOT NULL DEFAULT 0,
    accepted INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, late INTEGER NOT NULL DEFAULT 0,
    muted_until REAL NOT NULL DEFAULT 0, revoked INTEGER NOT NULL DEFAULT 0, compute TEXT NOT NULL DEFAULT '',
    data TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE rounds (
    number INTEGER PRIMARY KEY, phase TEXT NOT NULL CHECK (phase IN ('open', 'fusing', 'closed', 'abandoned')),
    deadline REAL NOT NULL, "update" TEXT NOT NULL, bits INTEGER, hyper BLOB NOT NULL, recipe TEXT NOT NULL,
    opened REAL NOT NULL, extended INTEGER NOT NULL DEFAULT 0, closed REAL, reason TEXT NOT NULL DEFAULT '',
    buffer INTEGER NOT NULL DEFAULT 0, staleness REAL NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX one_round_at_a_time ON rounds (phase IN ('open', 'fusing')) WHERE phase IN ('open', 'fusing');
CREATE TABLE invitations (
    round INTEGER NOT NULL REFERENCES rounds, device TEXT NOT NULL, prototype TEXT NOT NULL, model TEXT NOT NULL,
    PRIMARY KEY (round, device)
) WITHOUT ROWID;
{_JOBS}
{_UPDATES}
CREATE TABLE refusals (
    device TEXT NOT NULL, transfer TEXT NOT NULL, round INTEGER NOT NULL, reason TEXT NOT NULL, time REAL NOT NULL,
    PRIMARY KEY (device, transfer)
) WITHOUT ROWID;
CREATE TABLE models (
    number INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, prototype TEXT NOT NULL, round INTEGER NOT NULL,
    origin TEXT NOT NULL, recipe TEXT NOT NULL, parents TEXT NOT NULL, metrics TEXT NOT NULL, size INTEGER NOT NULL,
    created REAL NOT NULL, retained INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE current (prototype TEXT PRIMARY KEY, digest TEXT NOT NULL REFERENCES models (digest)) WITHOUT ROWID;
CREATE TABLE commands (
    id INTEGER PRIMARY KEY, verb TEXT NOT NULL, argument TEXT NOT NULL, asked REAL NOT NULL, done REAL, answer TEXT
);
"""


def connect(path: Path, *, read_only: bool = False, timeout: float = 10.0) -> sqlite3.Connection:
    """A connection in autocommit mode to the journal at `path`, which is created if missing.

    `timeout` is how long a statement waits for another process that writes, in seconds.
    """
    if read_only and not path.is_file():
        raise ConfigError(f"{path}: there is no journal; has the aggregator of this fleet been started?")
    target = f"file:{path}?mode=ro" if read_only else str(path)
    db = None
    try:
        db = sqlite3.connect(target, uri=read_only, isolation_level=None, timeout=timeout)
        db.execute("PRAGMA foreign_keys = ON")
        if not read_only:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
        _check_schema(db, path, read_only)
    except (sqlite3.Error, ConfigError) as error:
        if db is not None:
            db.close()
        if isinstance(error, ConfigError):
            raise
        busy = isinstance(error, sqlite3.OperationalError)  # locked, no permission, no space: it may be intact
        advice = "" if busy else "; it is damaged: put a backup back with `edgestill aggregator restore --force`"
        raise ConfigError(f"{path}: the journal cannot be opened: {error}{advice}") from error
    return db


def _check_schema(db: sqlite3.Connection, path: Path, read_only: bool) -> None:
    found = _version(db)
    if found == 0 and read_only:
        raise ConfigError(f"{path}: an empty journal; its aggregator has not started yet")
    if found > SCHEMA:
        raise ConfigError(
            f"{path}: a journal of schema {found}, this edgestill reads {SCHEMA}; use the newer version that created it"
        )
    if found < SCHEMA and read_only:
        raise ConfigError(
            f"{path}: a journal of schema {found}; it becomes {SCHEMA} when this edgestill's aggregator is started"
        )
    if 0 < found < SCHEMA:
        _copy_aside(db, path, found)
    if found < SCHEMA:
        _upgrade(db)


def _upgrade(db: sqlite3.Connection) -> None:
    """Create the current tables, or migrate an older schema, unless another process already has."""
    db.execute("BEGIN IMMEDIATE")
    try:
        while (found := _version(db)) < SCHEMA:
            for statement in (MIGRATIONS[found] if found else _TABLES).split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {found + 1 if found else SCHEMA}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _copy_aside(db: sqlite3.Connection, path: Path, version: int) -> None:
    """Save a copy of the journal in the same folder, for a downgrade to the version that created it."""
    kept, making = (path.with_name(f"{path.name}{end}") for end in (f".schema-{version}", ".copying"))
    if kept.exists():
        return
    making.unlink(missing_ok=True)
    copy = sqlite3.connect(making)
    try:
        db.backup(copy)
    finally:
        copy.close()
    os.chmod(making, 0o600)
    os.replace(making, kept)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
