"""Which published models keep their blobs: the table [models] of fleet.toml, without I/O.

A model is kept if it is its prototype's current one, one of the `last`, of a round that `every` divides, one of the
`best` by accuracy at the prototype's own precision, pinned, or needed by a round whose updates are kept. Of the others
the blob is deleted; the journal keeps the row for a while, for lineage and charts, and the number among the pruned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aggregator.config.tables import ModelsConfig
from aggregator.storage.rows import ModelRow

__all__ = ["to_prune"]


def to_prune(models: Sequence[ModelRow], kept: Collection[str], policy: ModelsConfig) -> list[ModelRow]:
    """The models that the policy gives up, oldest first; `kept` are digests that stay whatever it says."""
    if policy.last is None:
        return []
    stay = set(kept)
    by_prototype: dict[str, list[ModelRow]] = {}
    for model in sorted(models, key=lambda model: model.number):
        by_prototype.setdefault(model.prototype, []).append(model)
    for rows in by_prototype.values():
        stay |= {row.digest for row in rows[-policy.last :]}
        scored = [row for row in rows if "accuracy" in row.metrics]
        best = sorted(scored, key=lambda row: (row.metrics["accuracy"], row.number), reverse=True)[: policy.best]
        stay |= {row.digest for row in best}
        if policy.every is not None:
            stay |= {row.digest for row in rows if row.round % policy.every == 0}
    return [row for rows in by_prototype.values() for row in rows if row.digest not in stay]
