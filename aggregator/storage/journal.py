"""The aggregator's durable state, in one SQLite file.

Writes belong in `with journal.transaction():` and are durable when the block ends. One process writes rounds, updates
and models, the service; others read, or leave a `Command` for it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from aggregator.storage.rows import Answer, Command, DeviceRow, Invitation, ModelRow, Refusal, RoundRow, UpdateRow
from aggregator.storage.schema import connect
from core.errors import StorageError
from wire.codec import decode_message, encode_message
from wire.messages import Hyper
from wire.refusals import RefusalReason

__all__ = ["Journal"]

#: Refusals kept per device: enough to repeat answers, too few to fill a disk.
REFUSALS = 200
REPORTS = 50  # rounds whose reports are kept
RESTORE = "put a backup back with `edgestill aggregator restore`"


class Journal:
    """The journal in a file."""

    def __init__(self, path: Path, *, read_only: bool = False, timeout: float = 10.0) -> None:
        self._open = lambda: connect(path, read_only=read_only, timeout=timeout)
        self.db = self._open()

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Execute the block atomically and durably, even if the commit itself fails."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:
                self._roll_back()

    def _roll_back(self) -> None:
        """Roll back a failed transaction; if even that fails, open a new connection."""
        try:
            self.db.execute("ROLLBACK")
        except sqlite3.Error:
            self.db.close()
            self.db = self._open()

    # key-value pairs

    def get(self, key: str, default: str = "") -> str:
        """The value of a key."""
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def put(self, key: str, value: str) -> None:
        """Set the value of a key."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # epochs: jobs and offers carry the epoch, and devices refuse older ones

    def epoch(self) -> int:
        """The epoch of jobs and offers; 0 if none was begun yet."""
        return int(self.get("epoch", "0"))

    def begin_epoch(self, now: float) -> int:
        """Begin the next epoch: `now`, or the previous one plus 1 if the clock went back; durable on return."""
        with self.transaction():
            epoch = max(int(now), self.epoch() + 1)
            self.put("epoch", str(epoch))
        return epoch

    # devices

    def devices(self) -> list[DeviceRow]:
        """All devices ever seen, by id."""
        return [DeviceRow(**{**row, "revoked": bool(row["revoked"])}) for row in self._rows("devices", "1 ORDER BY id")]

    def note_device(self, device: str, **facts: Any) -> None:
        """Set columns of a device, which is added if it is new."""
        names = list(facts)
        marks = ", ".join("?" * (len(names) + 1))
        changes = ", ".join(f"{n} = excluded.{n}" for n in names)
        self.db.execute(
            f"INSERT INTO devices (id, {', '.join(names)}) VALUES ({marks}) ON CONFLICT DO UPDATE SET {changes}",
            (device, *facts.values()),
        )

    def count(self, device: str, what: str, by: int = 1) -> None:
        """Add to `accepted`, `refused` or `late` of a device."""
        assert what in ("accepted", "refused", "late")
        self.db.execute(
            f"INSERT INTO devices (id, {what}) VALUES (?, ?) ON CONFLICT DO UPDATE SET {what} = {what} + ?",
            (device, by, by),
        )

    # rounds

    def rounds(self, last: int = 10**9) -> list[RoundRow]:
        """The `last` rounds, newest first."""
        rows = self._rows("rounds", f"1 ORDER BY number DESC LIMIT {int(last)}")
        return [
            RoundRow(**{**row, "hyper": decode_message(row["hyper"], Hyper), "extended": bool(row["extended"])})
            for row in rows
        ]

    def last_round(self) -> RoundRow | None:
        """The newest round, open or not."""
        return next(iter(self.rounds(1)), None)

    def completed(self) -> int:
        """How many rounds were fused."""
        return int(self.db.execute("SELECT count(*) FROM rounds WHERE phase = 'closed'").fetchone()[0])

    def open_round(self, row: RoundRow, invitations: Iterable[Invitation]) -> None:
        """Add a round and its invitations."""
        columns = {f.name: getattr(row, f.name) for f in fields(row)}
        self._insert("rounds", {**columns, "hyper": encode_message(row.hyper)})
        for i in invitations:
            self._insert("invitations", {"round": row.number, **_columns(i)})

    def set_round(self, number: int, **facts: Any) -> None:
        """Set columns of a round: `phase`, `deadline`, `extended`, `closed`, `reason`."""
        changes = ", ".join(f"{name} = ?" for name in facts)
        self.db.execute(f"UPDATE rounds SET {changes} WHERE number = ?", (*facts.values(), number))

    def invitations(self, number: int) -> list[Invitation]:
        """The invitations of a round, by device."""
        return [Invitation(**row) for row in self._rows("invitations", "round = ? ORDER BY device", number)]

    def withdraw(self, number: int, device: str, reason: str) -> None:
        """Withdraw an invitation, and the update that answered it."""
        self.db.execute("DELETE FROM invitations WHERE round = ? AND device = ?", (number, device))
        self.db.execute(
            "UPDATE updates SET late = 1, excluded = ? WHERE round = ? AND device = ?", (reason, number, device)
        )

    # updates

    def add_update(self, row: UpdateRow) -> None:
        """Add an update whose blob is durable."""
        self._insert("updates", {**_columns(row), "metrics": json.dumps(dict(row.metrics), sort_keys=True)})
        self.count(row.device, "late" if row.late else "accepted")

    def updates(self, number: int, *, late: bool = False) -> list[UpdateRow]:
        """The updates that count for a round (or were late for it), in the order of their device ids."""
        rows = self._rows("updates", "round = ? AND late = ? AND excluded = '' ORDER BY device", number, int(late))
        return [UpdateRow(**{**row, "late": late, "metrics": _json(row["metrics"])}) for row in rows]

    def newest_metrics(self) -> dict[str, dict[str, float]]:
        """The training metrics of every device's newest stored update."""
        newest = "SELECT device, metrics, MAX(round) FROM updates WHERE excluded = '' GROUP BY device"
        return {device: _json(metrics) for device, metrics, _ in self.db.execute(newest)}

    def note_late(self, number: int) -> None:
        """Record which late updates teach in round `number`: those of the previous round that have arrived by now.

        Revoked devices are excluded.
        """
        revoked = {row.id for row in self.devices() if row.revoked}
        devices = [row.device for row in self.updates(number - 1, late=True) if row.device not in revoked]
        self.put("late", json.dumps({"round": number, "devices": devices}))

    def late_teachers(self, number: int) -> list[tuple[UpdateRow, str]]:
        """The late updates that teach in round `number`, and the models they started from, by device.

        Without those of devices that also answered this round in time, or were excluded from the previous round.
        """
        noted = _json(self.get("late", "{}"))
        if noted.get("round") != number:
            return []
        models = {i.device: i.model for i in self.invitations(number - 1)}
        wanted = set(noted["devices"]) - {row.device for row in self.updates(number)}
        rows = self.updates(number - 1, late=True)
        return [(r, models[r.device]) for r in rows if r.device in wanted and r.device in models]

    def excluded(self, number: int) -> dict[str, str]:
        """The devices whose updates were excluded from a round, and why."""
        where = "SELECT device, excluded FROM updates WHERE round = ? AND excluded != '' ORDER BY device"
        return dict(self.db.execute(where, (number,)).fetchall())

    def add_report(self, number: int, report: Mapping[str, Any]) -> None:
        """Store the fusion report of a round; only those of the newest rounds are kept."""
        self.put(f"report:{number}", json.dumps(report))
        self.db.execute(
            "DELETE FROM meta WHERE key LIKE 'report:%' AND CAST(substr(key, 8) AS INTEGER) <= ?", (number - REPORTS,)
        )

    def report(self, number: int) -> dict[str, Any]:
        """The fusion report of a round: `devices` and `seconds`; empty if there is none."""
        facts: dict[str, Any] = _json(self.get(f"report:{number}", "{}"))
        return facts

    def add_failure(self, number: int, device: str, reason: str) -> None:
        """Record that a device cannot finish a round, and why; only those of the newest rounds are kept."""
        self.put(f"failed:{number}", json.dumps({**self.failures(number), device: reason}))
        self.db.execute(
            "DELETE FROM meta WHERE key LIKE 'failed:%' AND CAST(substr(key, 8) AS INTEGER) <= ?", (number - REPORTS,)
        )

    def failures(self, number: int) -> dict[str, str]:
        """The devices that have given up a round, and why."""
        facts: dict[str, str] = _json(self.get(f"failed:{number}", "{}"))
        return facts

    def has_update(self, device: str, number: int) -> bool:
        """Whether the device's update for this round is already stored."""
        return self._exists("updates WHERE device = ? AND round = ?", device, number)

    def has_nonce(self, device: str, nonce: bytes) -> bool:
        """Whether an envelope with this nonce was accepted before."""
        return self._exists("updates WHERE device = ? AND nonce = ?", device, nonce)

    def accepted_round(self, device: str, transfer: str) -> int | None:
        """The round of the accepted update of this transfer."""
        where = "SELECT round FROM updates WHERE device = ? AND transfer = ?"
        row = self.db.execute(where, (device, transfer)).fetchone()
        return None if row is None else int(row[0])

    def refusal(self, device: str, transfer: str) -> Refusal | None:
        """The refusal of a transfer, if any."""
        rows = self._rows("refusals", "device = ? AND transfer = ?", device, transfer)
        return next(map(Refusal.read, rows), None)

    def add_refusal(self, row: Refusal) -> None:
        """Store and count a refusal; the device's oldest are deleted."""
        columns = (row.device, row.transfer, row.round, row.stored_reason, row.time)
        self.db.execute("INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?, ?)", columns)
        self.count(row.device, "late" if row.why is RefusalReason.LATE else "refused")
        self.db.execute(
            "DELETE FROM refusals WHERE device = ? AND transfer NOT IN "
            f"(SELECT transfer FROM refusals WHERE device = ? ORDER BY time DESC LIMIT {REFUSALS})",
            (row.device, row.device),
        )

    def refusals(self, last: int = 100) -> list[Refusal]:
        """The newest refusals."""
        return [Refusal.read(row) for row in self._rows("refusals", f"1 ORDER BY time DESC LIMIT {int(last)}")]

    # models

    def add_model(self, row: ModelRow) -> None:
        """Add a model whose blob is durable; it becomes its prototype's current model."""
        columns = {**_columns(row), "parents": json.dumps(row.parents), "metrics": json.dumps(dict(row.metrics))}
        del columns["number"]
        self._insert("models", columns)
        self.db.execute("INSERT OR REPLACE INTO current VALUES (?, ?)", (row.prototype, row.digest))

    def models(self, prototype: str | None = None) -> list[ModelRow]:
        """All published models, oldest first."""
        rows = self._rows("models", "prototype = coalesce(?, prototype) ORDER BY number", prototype)
        return [_model(row) for row in rows]

    def current(self) -> dict[str, ModelRow]:
        """The newest model of every prototype."""
        rows = self._rows("models", "digest IN (SELECT digest FROM current) ORDER BY prototype")
        return {row["prototype"]: _model(row) for row in rows}

    def model_sizes(self) -> dict[str, int]:
        """The size of every model, by digest."""
        return dict(self.db.execute("SELECT digest, size FROM models").fetchall())

    def model_numbers(self) -> dict[str, int]:
        """The number of every model, by digest."""
        return dict(self.db.execute("SELECT digest, number FROM models").fetchall())

    def find_models(self, start: str) -> list[ModelRow]:
        """The models whose digest begins with `start`, or the one with that number."""
        number = int(start) if start.isdecimal() and len(start) < 8 else -1
        rows = self._rows("models", "number = ? OR substr(digest, 1, ?) = ?", number, len(start), start)
        exact = [row for row in rows if row["number"] == number]
        return [_model(row) for row in exact or rows]

    def set_retained(self, digest: str, retained: bool) -> None:
        """Record whether the broker holds the chunks of this model."""
        self.db.execute("UPDATE models SET retained = ? WHERE digest = ?", (int(retained), digest))

    def retained(self) -> dict[str, int]:
        """The models whose chunks the broker holds, and their sizes."""
        return dict(self.db.execute("SELECT digest, size FROM models WHERE retained").fetchall())

    def named_blobs(self, keep_rounds: int) -> set[str]:
        """Every blob that is still needed: all models, and the updates of the newest rounds."""
        newest = self.db.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0]
        updates = self.db.execute("SELECT digest FROM updates WHERE round >= ?", (newest - keep_rounds,))
        models = self.db.execute("SELECT digest FROM models")
        return {row[0] for row in (*updates, *models)}

    # commands

    def ask(self, verb: str, argument: str = "") -> int:
        """Leave a command for the service; its number."""
        row = self.db.execute(
            "INSERT INTO commands (verb, argument, asked) VALUES (?, ?, ?)", (verb, argument, time.time())
        )
        assert row.lastrowid is not None
        return row.lastrowid

    def commands(self) -> list[Command]:
        """The pending commands."""
        rows = self.db.execute("SELECT id, verb, argument FROM commands WHERE done IS NULL ORDER BY id")
        return [Command(id=r[0], verb=r[1], argument=r[2]) for r in rows]

    def answer(self, command: int, text: str, *, failed: bool = False) -> None:
        """Record the result of a command."""
        answer = Answer(text, failed).stored
        self.db.execute("UPDATE commands SET done = ?, answer = ? WHERE id = ?", (time.time(), answer, command))

    def answer_of(self, command: int) -> Answer | None:
        """The service's answer, None until there is one."""
        row = self.db.execute("SELECT answer FROM commands WHERE id = ?", (command,)).fetchone()
        return None if row is None or row[0] is None else Answer.read(row[0])

    # helpers

    def _rows(self, table: str, where: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.db.execute(f"SELECT * FROM {table} WHERE {where}", values)
        names = [column[0] for column in cursor.description if column[0] not in _HIDDEN.get(table, ())]
        return [dict(zip(names, _visible(row, cursor, table), strict=True)) for row in cursor]

    def _exists(self, rest: str, *values: Any) -> bool:
        return self.db.execute(f"SELECT 1 FROM {rest} LIMIT 1", values).fetchone() is not None

    def _insert(self, table: str, columns: dict[str, Any]) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))


#: Columns without a field in the record.
_HIDDEN = {"invitations": ("round",), "models": ("retained",)}


def _visible(row: Sequence[Any], cursor: sqlite3.Cursor, table: str) -> list[Any]:
    hidden = _HIDDEN.get(table, ())
    return [value for value, column in zip(row, cursor.description, strict=True) if column[0] not in hidden]


def _columns(row: Any) -> dict[str, Any]:
    return {f.name: getattr(row, f.name) for f in fields(row)}


def _model(row: dict[str, Any]) -> ModelRow:
    return ModelRow(**{**row, "parents": tuple(_json(row["parents"])), "metrics": _json(row["metrics"])})


def _json(text: Any) -> Any:
    """The decoded value of a column; damage is reported as StorageError."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise StorageError(f"the journal has a damaged record: {error}; {RESTORE}") from None
