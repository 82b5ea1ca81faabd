"""What the journal forgets: the records of old rounds, so that it does not grow for ever.

Updates, invitations, jobs and rounds before the newest `keep` are deleted, and models of that time whose blobs were
pruned. A round stays, and all after it, as long as a device may answer a job of it, or an update of it is not fused.
Counts of ended rounds are kept (`ended`), those of devices are in their own table. A redelivered update of a forgotten
round is refused as late, like any other of a closed round.
"""

from __future__ import annotations

import json

from aggregator.storage.tables.base import read_json
from aggregator.storage.tables.models import ModelTable
from aggregator.storage.tables.updates import UpdateTable
from wire.ranges import to_ranges

__all__ = ["HistoryTable"]

ENDED = ("closed", "abandoned")
OF_ROUNDS = (("updates", "round"), ("jobs", "round"), ("invitations", "round"))
COMMANDS = 1000  # answered ones that are kept


class HistoryTable(UpdateTable, ModelTable):
    """Rounds, updates and models, of which old ones can be forgotten."""

    def forget(self, keep: int) -> int:
        """Delete the records of all ended rounds but the newest `keep`, durably; returns the number of rounds."""
        last = self._oldest_in_use(self._newest() - keep)
        counts = (
            "SELECT phase, count(*) FROM rounds WHERE number <= ? AND phase IN ('closed', 'abandoned') GROUP BY phase"
        )
        gone = dict(self.db.execute(counts, (last,)).fetchall())
        if not gone:
            return 0
        with self.transaction():
            before = self._forgotten()
            self.put("ended", json.dumps({phase: before.get(phase, 0) + gone.get(phase, 0) for phase in ENDED}))
            old = "SELECT number FROM rounds WHERE number <= ? AND phase IN ('closed', 'abandoned')"
            for table, column in (*OF_ROUNDS, ("rounds", "number")):
                self.db.execute(f"DELETE FROM {table} WHERE {column} IN ({old})", (last,))
            self._forget_models(last)
            answered = "done IS NOT NULL AND id <= (SELECT max(id) FROM commands) - ?"
            self.db.execute(f"DELETE FROM commands WHERE {answered}", (COMMANDS,))
        return sum(gone.values())

    def completed(self, before: int = 2**62) -> int:
        """Number of fused rounds with a smaller number than `before`, which is that of a round still known."""
        return super().completed(before) + self._forgotten().get("closed", 0)

    def outcomes(self) -> dict[str, int]:
        """How many rounds there have been of every phase."""
        kept, gone = super().outcomes(), self._forgotten()
        return {phase: kept.get(phase, 0) + gone.get(phase, 0) for phase in kept.keys() | gone.keys()}

    def _oldest_in_use(self, last: int) -> int:
        """`last`, or the round before the first that an open job or an update needs which later rounds fuse."""
        needed = (
            "SELECT min(round) FROM (SELECT round FROM jobs WHERE state IN ('open', 'lapsed') UNION ALL "
            "SELECT round FROM updates WHERE late = 0 AND excluded = '' AND coalesce(counted, round + 1) > round "
            "AND coalesce(counted, ?) > ?)"
        )
        oldest = self.db.execute(needed, (last + 1, last)).fetchone()[0]
        return last if oldest is None else min(last, int(oldest) - 1)

    def _forgotten(self) -> dict[str, int]:
        """How many rounds were forgotten, by their phase."""
        return dict(read_json(self.get("ended", "{}")))

    def _forget_models(self, number: int) -> None:
        """The rows of pruned models up to round `number`."""
        pruned = self.pruned()
        rows = self.db.execute("SELECT number FROM models WHERE round <= ? AND NOT retained", (number,)).fetchall()
        gone = pruned & {row[0] for row in rows}
        if gone:
            self.db.executemany("DELETE FROM models WHERE number = ?", [(one,) for one in gone])
            self.put("pruned", json.dumps(to_ranges(sorted(pruned - gone))))
