"""Models: all that were published, and the current one of each prototype."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from aggregator.storage.rows import ModelRow
from aggregator.storage.tables.base import columns_of, read_json
from aggregator.storage.tables.jobs import JobTable
from wire.ranges import to_ranges

__all__ = ["ModelTable"]


#: Updates whose blobs are in use: of the newest rounds, or in the buffer of an asynchronous one.
_KEPT = "round >= :oldest OR counted >= :oldest OR (counted IS NULL AND late = 0 AND excluded = '')"


class ModelTable(JobTable):
    """Models by digest, numbered in their order."""

    def add_model(self, row: ModelRow) -> None:
        """Add a model whose blob is on the disk; it becomes its prototype's current one."""
        columns = {**columns_of(row), "parents": json.dumps(row.parents), "metrics": json.dumps(dict(row.metrics))}
        del columns["number"]
        self._insert("models", columns)
        self.db.execute("INSERT OR REPLACE INTO current VALUES (?, ?)", (row.prototype, row.digest))

    def models(self, prototype: str | None = None, *, since: int = 0) -> list[ModelRow]:
        """All published models, or those of round `since` and later, oldest first."""
        where = "prototype = coalesce(?, prototype) AND round >= ? ORDER BY number"
        rows = self._rows("models", where, prototype, since)
        return [_model(row) for row in rows]

    def fused_in(self, number: int) -> list[ModelRow]:
        """The models that round `number` made."""
        return [_model(row) for row in self._rows("models", "round = ? AND origin = 'fused' ORDER BY number", number)]

    def current(self) -> dict[str, ModelRow]:
        """The newest model of every prototype."""
        rows = self._rows("models", "digest IN (SELECT digest FROM current) ORDER BY prototype")
        return {row["prototype"]: _model(row) for row in rows}

    def models_of(self, digests: Iterable[str]) -> dict[str, ModelRow]:
        """The models with these digests, as far as there are such."""
        where = "digest IN (SELECT value FROM json_each(?))"
        rows = self._rows("models", where, json.dumps(sorted(set(digests))))
        return {row["digest"]: _model(row) for row in rows}

    def unpruned(self) -> list[ModelRow]:
        """The models that have a blob, oldest first."""
        kept = {row[0] for row in self.db.execute("SELECT number FROM models")} - self.pruned()
        where = "number IN (SELECT value FROM json_each(?)) ORDER BY number"
        return [_model(row) for row in self._rows("models", where, json.dumps(sorted(kept)))]

    def find_models(self, start: str) -> list[ModelRow]:
        """The models whose digest begins with `start`, or the one with that number."""
        number = int(start) if start.isdecimal() and len(start) < 8 else -1
        rows = self._rows("models", "number = ? OR substr(digest, 1, ?) = ?", number, len(start), start)
        exact = [row for row in rows if row["number"] == number]
        return [_model(row) for row in exact or rows]

    def set_retained(self, digest: str, retained: bool) -> None:
        """Whether the broker holds the chunks of this model."""
        self.db.execute("UPDATE models SET retained = ? WHERE digest = ?", (int(retained), digest))

    def retained(self) -> dict[str, int]:
        """The models whose chunks the broker holds, and their sizes."""
        return dict(self.db.execute("SELECT digest, size FROM models WHERE retained").fetchall())

    def named_blobs(self, keep_rounds: int) -> set[str]:
        """All blobs in use: models that are not pruned, and the updates of the newest rounds."""
        oldest = self._newest() - keep_rounds
        updates = self.db.execute(f"SELECT digest FROM updates WHERE {_KEPT}", {"oldest": oldest})
        pruned = self.pruned()
        models = self.db.execute("SELECT digest, number FROM models").fetchall()
        return {row[0] for row in updates} | {digest for digest, number in models if number not in pruned}

    def needed_models(self, keep_rounds: int) -> set[str]:
        """Models that no policy may prune: current ones, and those that devices of the newest rounds started from."""
        invited = self.db.execute("SELECT model FROM invitations WHERE round >= ?", (self._newest() - keep_rounds,))
        current = self.db.execute("SELECT digest FROM current")
        return {row[0] for row in (*invited, *current)} | self.needed_bases(keep_rounds)

    def pruned(self) -> set[int]:
        """Numbers of models whose blobs were deleted by the policy."""
        return {number for start, stop in read_json(self.get("pruned", "[]")) for number in range(start, stop)}

    def prune(self, numbers: Iterable[int]) -> None:
        """Record that the blobs of these models are no longer needed."""
        self.put("pruned", json.dumps(to_ranges(sorted(self.pruned() | set(numbers)))))

    def pins(self) -> set[str]:
        """Digests of models that the operator wants to keep."""
        return set(read_json(self.get("pins", "[]")))

    def set_pin(self, digest: str, pinned: bool) -> None:
        """Keep a model, whatever the policy says, or no longer."""
        self.put("pins", json.dumps(sorted(self.pins() | {digest} if pinned else self.pins() - {digest})))

    def bytes_kept(self, keep_rounds: int) -> dict[str, int]:
        """Bytes of the blobs in use: `models`, `updates`."""
        pruned = self.pruned()
        sizes = self.db.execute("SELECT number, size FROM models").fetchall()
        where = f"SELECT coalesce(sum(size), 0) FROM updates WHERE {_KEPT}"
        updates = self.db.execute(where, {"oldest": self._newest() - keep_rounds}).fetchone()[0]
        return {"models": sum(size for number, size in sizes if number not in pruned), "updates": int(updates)}

    def _newest(self) -> int:
        return int(self.db.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0])


def _model(row: dict[str, Any]) -> ModelRow:
    return ModelRow(**{**row, "parents": tuple(read_json(row["parents"])), "metrics": read_json(row["metrics"])})
