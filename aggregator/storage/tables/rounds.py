"""Rounds and their invitations; the epoch of jobs and offers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from aggregator.storage.rows import Invitation, RoundRow
from aggregator.storage.tables.base import Table, columns_of
from wire.codec import decode_message, encode_message
from wire.messages import Hyper

__all__ = ["RoundTable"]


class RoundTable(Table):
    """Rounds by number, invitations by round and device; devices refuse instructions of an older epoch."""

    def epoch(self) -> int:
        """The current epoch; 0 before the first."""
        return int(self.get("epoch", "0"))

    def begin_epoch(self, now: float) -> int:
        """Begin the next epoch: `now`, or the last one plus one if the clock went back; durable on return."""
        with self.transaction():
            epoch = max(int(now), self.epoch() + 1)
            self.put("epoch", str(epoch))
        return epoch

    def rounds(self, last: int = 10**9) -> list[RoundRow]:
        """The `last` rounds, newest first."""
        rows = self._rows("rounds", f"1 ORDER BY number DESC LIMIT {int(last)}")
        return [_round(row) for row in rows]

    def round(self, number: int) -> RoundRow | None:
        """A round by its number; None if there is none, or if it was forgotten."""
        return next(map(_round, self._rows("rounds", "number = ?", number)), None)

    def last_round(self) -> RoundRow | None:
        """The newest round, open or not."""
        return next(iter(self.rounds(1)), None)

    def completed(self, before: int = 2**62) -> int:
        """Number of fused rounds with a smaller number than `before`."""
        fused = "SELECT count(*) FROM rounds WHERE phase = 'closed' AND number < ?"
        return int(self.db.execute(fused, (before,)).fetchone()[0])

    def outcomes(self) -> dict[str, int]:
        """How many rounds there are of every phase."""
        return dict(self.db.execute("SELECT phase, count(*) FROM rounds GROUP BY phase").fetchall())

    def last_closed(self, before: int = 2**62) -> RoundRow | None:
        """The newest round that was fused, of those with a smaller number than `before`."""
        rows = self._rows("rounds", "phase = 'closed' AND number < ? ORDER BY number DESC LIMIT 1", before)
        return _round(rows[0]) if rows else None

    def closed_after(self, number: int, most: int) -> list[RoundRow]:
        """The fused rounds after round `number`, oldest first, at most so many."""
        rows = self._rows("rounds", "phase = 'closed' AND number > ? ORDER BY number LIMIT ?", number, most)
        return [_round(row) for row in rows]

    def open_round(self, row: RoundRow, invitations: Iterable[Invitation]) -> None:
        """Add a round and its invitations."""
        self._insert("rounds", {**columns_of(row), "hyper": encode_message(row.hyper)})
        for i in invitations:
            self._insert("invitations", {"round": row.number, **columns_of(i)})

    def set_round(self, number: int, **facts: Any) -> None:
        """Set columns of a round: `phase`, `deadline`, `extended`, `closed`, `reason`."""
        changes = ", ".join(f"{name} = ?" for name in facts)
        self.db.execute(f"UPDATE rounds SET {changes} WHERE number = ?", (*facts.values(), number))

    def later(self, number: int) -> tuple[float, list[str]] | None:
        """The later deadline of a round, and the devices that have it; None if none has."""
        found = json.loads(self.get("later", "null"))
        return None if found is None or found["round"] != number else (found["deadline"], found["devices"])

    def set_later(self, number: int, deadline: float, devices: Iterable[str]) -> None:
        """Give some devices of the newest round a later deadline."""
        self.put("later", json.dumps({"round": number, "deadline": deadline, "devices": sorted(devices)}))

    def invitations(self, number: int) -> list[Invitation]:
        """The invitations of a round, by device."""
        return [Invitation(**row) for row in self._rows("invitations", "round = ? ORDER BY device", number)]


def _round(row: Mapping[str, Any]) -> RoundRow:
    return RoundRow(**{**row, "hyper": decode_message(row["hyper"], Hyper), "extended": bool(row["extended"])})
