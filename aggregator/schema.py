"""The tables of the journal, and how a connection to it is opened.

SQLite in WAL mode with synchronous=FULL: a committed transaction survives a power cut, readers never wait for the
writer. The schema has a version; a journal of another one is refused, not guessed at.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from wire.errors import ConfigError

__all__ = ["SCHEMA", "connect"]

SCHEMA = 1
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE devices (
    id TEXT PRIMARY KEY, prototype TEXT, board TEXT NOT NULL DEFAULT '', examples INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'unknown', session INTEGER NOT NULL DEFAULT 0, seen REAL NOT NULL DEFAULT 0,
    accepted INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, late INTEGER NOT NULL DEFAULT 0,
    muted_until REAL NOT NULL DEFAULT 0, revoked INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE rounds (
    number INTEGER PRIMARY KEY, phase TEXT NOT NULL CHECK (phase IN ('open', 'fusing', 'closed', 'abandoned')),
    deadline REAL NOT NULL, "update" TEXT NOT NULL, bits INTEGER, hyper BLOB NOT NULL, recipe TEXT NOT NULL,
    opened REAL NOT NULL, extended INTEGER NOT NULL DEFAULT 0, closed REAL, reason TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX one_round_at_a_time ON rounds (phase IN ('open', 'fusing')) WHERE phase IN ('open', 'fusing');
CREATE TABLE invitations (
    round INTEGER NOT NULL REFERENCES rounds, device TEXT NOT NULL, prototype TEXT NOT NULL, model TEXT NOT NULL,
    PRIMARY KEY (round, device)
) WITHOUT ROWID;
CREATE TABLE updates (
    device TEXT NOT NULL, round INTEGER NOT NULL REFERENCES rounds, transfer TEXT NOT NULL, digest TEXT NOT NULL,
    size INTEGER NOT NULL, prototype TEXT NOT NULL, kind TEXT NOT NULL, num_examples INTEGER NOT NULL,
    nonce BLOB NOT NULL, received REAL NOT NULL, late INTEGER NOT NULL, metrics TEXT NOT NULL,
    PRIMARY KEY (device, round), UNIQUE (device, transfer), UNIQUE (device, nonce)
) WITHOUT ROWID;
CREATE INDEX updates_by_round ON updates (round);
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


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode to the journal at `path`, which is made if it is not there."""
    if read_only and not path.is_file():
        raise ConfigError(f"{path}: there is no journal; has the aggregator of this fleet been started?")
    target = f"file:{path}?mode=ro" if read_only else str(path)
    try:
        db = sqlite3.connect(target, uri=read_only, isolation_level=None, timeout=10)
        db.execute("PRAGMA foreign_keys = ON")
        if not read_only:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
        _check_schema(db, path, read_only)
    except sqlite3.Error as error:
        raise ConfigError(f"{path}: the journal cannot be opened: {error}") from error
    return db


def _check_schema(db: sqlite3.Connection, path: Path, read_only: bool) -> None:
    found = _version(db)
    if found == 0 and read_only:
        raise ConfigError(f"{path}: an empty journal; its aggregator has not started yet")
    if found == 0:
        found = _make(db)
    if found != SCHEMA:
        raise ConfigError(
            f"{path}: a journal of schema {found}, this edgestill reads {SCHEMA}; use the one that made it"
        )


def _make(db: sqlite3.Connection) -> int:
    """The tables, unless another process has been faster."""
    db.execute("BEGIN IMMEDIATE")
    if _version(db) == 0:
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    db.execute("COMMIT")
    return _version(db)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
