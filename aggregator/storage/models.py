"""Published models: lookup and rollback."""

from __future__ import annotations

from typing import Any

import msgspec

from aggregator.storage.artifacts import open_artifact, seal_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import ModelRow
from core.errors import ConfigError
from wire.keys import Ed25519PrivateKey

__all__ = ["find_model", "model_facts", "roll_back", "stored_model"]


def find_model(journal: Journal, name: str) -> ModelRow:
    """The model that `name` means: a prototype (its newest), a number, or the start of a digest."""
    current = journal.current()
    if name in current:
        return current[name]
    found = journal.find_models(name) if name else []
    if len(found) == 1:
        return found[0]
    what = "several models" if found else "no model"
    known = " ".join(current) or "none yet"
    raise ConfigError(f"{what} called {name!r}; give a prototype ({known}), a number or more of the digest")


def stored_model(journal: Journal, name: str) -> ModelRow:
    """The model that `name` means, if it is still on disk."""
    model = find_model(journal, name)
    if model.number in journal.pruned():
        raise ConfigError(f"model {model.number} was pruned: [models] of fleet.toml says which are kept; name another")
    return model


def model_facts(model: ModelRow, *, current: bool, pruned: bool = False, pinned: bool = False) -> dict[str, Any]:
    """One model, as `edgestill model list --json` prints it."""
    return {
        "number": model.number,
        "digest": model.digest,
        "prototype": model.prototype,
        "round": model.round,
        "origin": model.origin,
        "recipe": model.recipe,
        "current": current,
        "pruned": pruned,
        "pinned": pinned,
        "metrics": dict(model.metrics),
        "size": model.size,
        "created": model.created,
        "parents": list(model.parents),
    }


def roll_back(
    journal: Journal, blobs: Blobs, name: str, *, key: Ed25519PrivateKey, fleet: str, number: int, now: float
) -> ModelRow:
    """Make an older model its prototype's newest: the same tensors in a new artifact; inside a transaction."""
    old = stored_model(journal, name)
    newest = journal.current()[old.prototype]
    if old.digest == newest.digest:
        raise ConfigError(f"model {old.digest[:12]}… is the newest of {old.prototype} already; name an older one")
    header, body = open_artifact(blobs.read(old.digest))
    header = msgspec.structs.replace(
        header,
        round=number,
        recipe="rollback",
        parents=(newest.digest, old.digest),
        metrics=dict(old.metrics),  # from the journal: a header of an older version has other names
    )
    sealed = seal_artifact(header, body, key=key, fleet=fleet)
    row = ModelRow(
        digest=blobs.put(sealed),
        prototype=header.prototype,
        round=number,
        origin="rollback",
        recipe=old.recipe,
        parents=header.parents,
        metrics=old.metrics,
        size=len(sealed),
        created=now,
    )
    journal.add_model(row)
    return row
