"""Models: all that were published, and the current one of each prototype."""

from __future__ import annotations

import json
from typing import Any

from aggregator.storage.rows import ModelRow
from aggregator.storage.tables.base import Table, columns_of, read_json

__all__ = ["ModelTable"]


class ModelTable(Table):
    """Models by digest, numbered in their order."""

    def add_model(self, row: ModelRow) -> None:
        """Add a model whose blob is on the disk; it becomes its prototype's current one."""
        columns = {**columns_of(row), "parents": json.dumps(row.parents), "metrics": json.dumps(dict(row.metrics))}
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
        """Whether the broker holds the chunks of this model."""
        self.db.execute("UPDATE models SET retained = ? WHERE digest = ?", (int(retained), digest))

    def retained(self) -> dict[str, int]:
        """The models whose chunks the broker holds, and their sizes."""
        return dict(self.db.execute("SELECT digest, size FROM models WHERE retained").fetchall())

    def named_blobs(self, keep_rounds: int) -> set[str]:
        """All blobs in use: all models, and the updates of the newest rounds."""
        newest = self.db.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0]
        updates = self.db.execute("SELECT digest FROM updates WHERE round >= ?", (newest - keep_rounds,))
        models = self.db.execute("SELECT digest FROM models")
        return {row[0] for row in (*updates, *models)}


def _model(row: dict[str, Any]) -> ModelRow:
    return ModelRow(**{**row, "parents": tuple(read_json(row["parents"])), "metrics": read_json(row["metrics"])})
