"""Accepted updates, fusion reports, rounds that devices gave up, and refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aggregator.storage.rows import Refusal, UpdateRow
from aggregator.storage.tables.base import columns_of, read_json
from aggregator.storage.tables.devices import DeviceTable
from aggregator.storage.tables.jobs import JobTable
from aggregator.storage.tables.rounds import RoundTable
from wire.refusals import RefusalReason

__all__ = ["REPORTS", "UpdateTable"]

_WAITS = "counted IS NULL AND late = 0 AND excluded = ''"  # in the buffer
#: Refusals kept per device: enough to answer again, too few to fill a disk.
REFUSALS = 200
REPORTS = 500  # rounds whose reports are kept


class UpdateTable(DeviceTable, RoundTable, JobTable):
    """Updates by round and device, refusals by device and transfer, reports by round."""

    def add_update(self, row: UpdateRow) -> None:
        """Add an update whose blob is on the disk; that of a job waits in the buffer."""
        metrics = json.dumps(dict(row.metrics), sort_keys=True)
        counted = None if row.late or row.job else row.round
        self._insert("updates", {**columns_of(row), "metrics": metrics, "counted": counted})
        self.set_jobs([row.job], "answered")
        self.count(row.device, "late" if row.late else "accepted")

    def updates(self, number: int, *, late: bool = False) -> list[UpdateRow]:
        """The updates that count for a round (or came late for it), in the order of their device ids.

        Of two of one device, in an asynchronous round, the later one counts.
        """
        of_round = "round = ? AND late = 1" if late else "counted = ? AND late = 0"
        rows = self._rows("updates", f"{of_round} AND excluded = '' ORDER BY device, number", number)
        return list({row["device"]: _update(row) for row in rows}.values())

    def buffer(self) -> list[UpdateRow]:
        """The updates that wait for a fusion, in the order in which they were accepted."""
        return [_update(row) for row in self._rows("updates", f"{_WAITS} ORDER BY number")]

    def count_updates(self, number: int) -> int:
        """How many updates a round has fused, or fuses, two of one device included."""
        where = "SELECT count(*) FROM updates WHERE counted = ? AND late = 0 AND excluded = ''"
        return int(self.db.execute(where, (number,)).fetchone()[0])

    def take(self, number: int, count: int) -> None:
        """The oldest `count` updates of the buffer are those of round `number` from now on."""
        oldest = f"SELECT number FROM updates WHERE {_WAITS} ORDER BY number LIMIT ?"
        self.db.execute(f"UPDATE updates SET counted = ? WHERE number IN ({oldest})", (number, count))

    def drop_buffer(self, reason: str) -> None:
        """No update that waits is fused."""
        self.db.execute(f"UPDATE updates SET excluded = ? WHERE {_WAITS}", (reason,))

    def withdraw(self, number: int, device: str, reason: str) -> None:
        """Withdraw a device's invitation to a round, or its jobs, and its updates that are not fused yet."""
        self.db.execute("DELETE FROM invitations WHERE round = ? AND device = ?", (number, device))
        self.end_jobs_of(device)
        fusing = "counted IS NULL OR counted IN (SELECT number FROM rounds WHERE phase = 'fusing')"
        unfused = f"(job = 0 AND round = ? OR job > 0 AND ({fusing})) AND excluded = ''"
        statement = f"UPDATE updates SET late = 1, excluded = ? WHERE device = ? AND {unfused}"
        self.db.execute(statement, (reason, device, number))

    def staleness(self, number: int) -> dict[str, int]:
        """tau of the updates of an asynchronous round: fusions between the model that they were trained from and it."""
        version = self.completed(number)
        jobs = "SELECT u.device, j.version FROM updates u JOIN jobs j ON j.number = u.job"
        rows = self.db.execute(f"{jobs} WHERE u.counted = ? AND u.excluded = '' ORDER BY u.device, u.number", (number,))
        return {device: version - began for device, began in rows}

    def update_sizes(self) -> dict[int, int]:
        """Bytes of the updates that count for each round."""
        sizes = (
            "SELECT counted, sum(size) FROM updates WHERE counted > 0 AND late = 0 AND excluded = '' GROUP BY counted"
        )
        return dict(self.db.execute(sizes).fetchall())

    def newest_metrics(self) -> dict[str, dict[str, float]]:
        """The training metrics of every device, from its newest stored update."""
        newest = "SELECT metrics FROM updates WHERE device = id AND excluded = '' ORDER BY round DESC LIMIT 1"
        rows = self.db.execute(f"SELECT id, ({newest}) FROM devices")
        return {device: read_json(metrics) for device, metrics in rows if metrics is not None}

    def note_late(self, number: int) -> None:
        """Record which late updates teach in round `number`: those of the previous round that have arrived by now.

        Updates of revoked devices are excluded.
        """
        revoked = {row.id for row in self.devices() if row.revoked}
        devices = [row.device for row in self.updates(number - 1, late=True) if row.device not in revoked]
        self.put("late", json.dumps({"round": number, "devices": devices}))

    def late_teachers(self, number: int) -> list[tuple[UpdateRow, str]]:
        """The late updates that teach in round `number`, and the models they started from, by device.

        Devices that also answered this round in time, or were excluded from the previous one, are left out.
        """
        noted = read_json(self.get("late", "{}"))
        if noted.get("round") != number:
            return []
        models = {i.device: i.model for i in self.invitations(number - 1)}
        wanted = set(noted["devices"]) - {row.device for row in self.updates(number)}
        rows = self.updates(number - 1, late=True)
        return [(r, models[r.device]) for r in rows if r.device in wanted and r.device in models]

    def excluded(self, number: int) -> dict[str, str]:
        """The devices whose updates were removed from a round, and why."""
        where = "(counted = ? OR counted IS NULL AND round = ?) AND excluded != ''"
        rows = self.db.execute(f"SELECT device, excluded FROM updates WHERE {where} ORDER BY device", (number, number))
        return dict(rows.fetchall())

    def add_report(self, number: int, report: Mapping[str, Any]) -> None:
        """Store the fusion report of a round; those of the newest rounds are kept."""
        self.put(f"report:{number}", json.dumps(report))
        self.db.execute(
            "DELETE FROM meta WHERE key LIKE 'report:%' AND CAST(substr(key, 8) AS INTEGER) <= ?", (number - REPORTS,)
        )

    def report(self, number: int) -> dict[str, Any]:
        """The fusion report of a round, `devices` and `seconds`; empty if there is none."""
        facts: dict[str, Any] = read_json(self.get(f"report:{number}", "{}"))
        return facts

    def add_failure(self, number: int, device: str, reason: str) -> None:
        """Record that a device gave up a round, and why; kept for the newest rounds."""
        self.put(f"failed:{number}", json.dumps({**self.failures(number), device: reason}))
        self.db.execute(
            "DELETE FROM meta WHERE key LIKE 'failed:%' AND CAST(substr(key, 8) AS INTEGER) <= ?", (number - REPORTS,)
        )

    def failures(self, number: int) -> dict[str, str]:
        """The devices that have given up a round, and why."""
        facts: dict[str, str] = read_json(self.get(f"failed:{number}", "{}"))
        return facts

    def has_update(self, device: str, number: int) -> bool:
        """Whether an update of the device for this round is stored."""
        return self._exists("updates WHERE device = ? AND round = ?", device, number)

    def has_nonce(self, device: str, nonce: bytes) -> bool:
        """Whether an envelope with this nonce was accepted before."""
        return self._exists("updates WHERE device = ? AND nonce = ?", device, nonce)

    def accepted_round(self, device: str, transfer: str) -> int | None:
        """The round of the accepted update that came by this transfer."""
        where = "SELECT round FROM updates WHERE device = ? AND transfer = ?"
        row = self.db.execute(where, (device, transfer)).fetchone()
        return None if row is None else int(row[0])

    def refusal(self, device: str, transfer: str) -> Refusal | None:
        """The refusal of a transfer."""
        rows = self._rows("refusals", "device = ? AND transfer = ?", device, transfer)
        return next(map(Refusal.read, rows), None)

    def add_refusal(self, row: Refusal) -> None:
        """Store and count a refusal; the device's oldest ones are deleted."""
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


def _update(row: Mapping[str, Any]) -> UpdateRow:
    return UpdateRow(**{**row, "late": bool(row["late"]), "metrics": read_json(row["metrics"])})
