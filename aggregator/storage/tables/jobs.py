"""Jobs of asynchronous rounds: who trains, from which model, and until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aggregator.storage.rows import JobRow
from aggregator.storage.tables.base import Table, columns_of

__all__ = ["JobTable"]


class JobTable(Table):
    """Jobs by number."""

    def give_job(self, row: JobRow) -> None:
        """Add a job; its turn is counted here."""
        before = "SELECT count(*) FROM jobs WHERE round = ? AND device = ?"
        turn = self.db.execute(before, (row.round, row.device)).fetchone()[0]
        self._insert("jobs", columns_of(replace(row, turn=turn)))

    def set_jobs(self, numbers: Iterable[int], state: str) -> None:
        """Set the state of some jobs."""
        self.db.executemany("UPDATE jobs SET state = ? WHERE number = ?", [(state, number) for number in numbers])

    def end_jobs_of(self, device: str) -> None:
        """End the jobs that a device may still answer."""
        self.db.execute("UPDATE jobs SET state = 'ended' WHERE device = ? AND state IN ('open', 'lapsed')", (device,))

    def jobs(self, *states: str) -> list[JobRow]:
        """The jobs in these states, in the order in which they were given."""
        marks = ", ".join("?" * len(states))
        return [JobRow(**row) for row in self._rows("jobs", f"state IN ({marks}) ORDER BY number", *states)]

    def job(self, number: int) -> JobRow | None:
        """A job by its number."""
        return next((JobRow(**row) for row in self._rows("jobs", "number = ?", number)), None)

    def jobs_given(self) -> int:
        """The number of the newest job."""
        return int(self.db.execute("SELECT coalesce(max(number), 0) FROM jobs").fetchone()[0])

    def told_jobs(self, since: int = 2**53) -> dict[str, JobRow]:
        """The newest job of every device, if it may still answer it, or has answered it from a model that is current.

        Or if it has answered it, and it is of round `since`, or a later one.
        """
        told = (
            "SELECT number FROM jobs WHERE state IN ('open', 'lapsed')"
            " UNION SELECT number FROM jobs WHERE state = 'answered' AND round >= ?"
            " UNION SELECT number FROM jobs WHERE state = 'answered' AND model IN (SELECT digest FROM current)"
        )
        newer = "SELECT 1 FROM jobs newer WHERE newer.device = jobs.device AND newer.number > jobs.number"
        rows = self._rows("jobs", f"number IN ({told}) AND NOT EXISTS ({newer})", since)
        return {row["device"]: JobRow(**row) for row in rows}

    def needed_bases(self, keep_rounds: int) -> set[str]:
        """Models and side artifacts from which updates were or may be trained that are not fused for long."""
        newest = "SELECT coalesce(max(number), 0) FROM rounds"
        answered = f"SELECT job FROM updates WHERE late = 0 AND coalesce(counted, ({newest})) >= ({newest}) - ?"
        rows = self.db.execute(
            "SELECT model, side_artifact FROM jobs WHERE state IN ('open', 'lapsed') "
            f"OR (state = 'answered' AND number IN ({answered}))",
            (keep_rounds,),
        )
        return {digest for row in rows for digest in row if digest is not None}
