"""The outbox: an update is sealed, stored in a folder with the device's local state, and committed with one rename.

Imports no torch: shared by the full and the light training child.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.files import move, write_atomic
from edge_agent.child.request import Request
from edge_agent.state.folders import remove
from edge_agent.state.store import PERSONAL
from edge_agent.training.label_privacy import told_counts, told_examples
from wire.envelope import seal
from wire.headers import update_head
from wire.ids import digest_of
from wire.keys import load_private_key
from wire.messages import UpdateHeader

__all__ = ["leave", "make_staging", "spool"]


def make_staging(request: Request) -> Path:
    """An empty folder for this piece of work."""
    folder = Path(request.state_dir) / "staging" / request.key
    remove(folder)
    folder.mkdir(parents=True)
    return folder


def spool(
    request: Request,
    folder: Path,
    *,
    kind: str,
    body: bytes,
    keep: Mapping[str, bytes],
    label_counts: Sequence[int],
    metrics: Mapping[str, float],
) -> None:
    """Seal the update and write it to the folder, with the files to be kept on the device.

    With noised or binned label counts, the number of examples is reported accordingly.
    """
    assert request.round is not None
    key = load_private_key(request.private_key)
    sealed = seal(
        update_head(_header(request, kind, label_counts, metrics, secret=key.private_bytes_raw())),
        body,
        key=key,
        kind="update",
        sender=request.device,
        fleet=request.fleet,
        round=request.round,
    )
    for name, data in keep.items():
        write_atomic(folder / name, data)
    write_atomic(folder / "update", sealed)
    entry = {"round": request.round, "digest": digest_of(sealed), "size": len(sealed), "update": kind}
    entry |= {"personal": True} if PERSONAL in keep else {}
    write_atomic(folder / "entry.json", json.dumps(entry))


def _header(
    request: Request, kind: str, label_counts: Sequence[int], facts: Mapping[str, float], *, secret: bytes
) -> UpdateHeader:
    assert request.round is not None
    told, examples = tuple(label_counts), sum(label_counts)
    if request.count_epsilon is not None or request.count_bins is not None:
        told = told_counts(label_counts, secret=secret, epsilon=request.count_epsilon, width=request.count_bins)
        examples = told_examples(told)
    return UpdateHeader(
        round=request.round,
        device=request.device,
        prototype=request.prototype,
        update=kind,  # type: ignore[arg-type]  # one of the kinds: who made the body has checked
        num_examples=examples,
        label_counts=told,
        base=request.base,
        metrics=dict(facts),
    )


def leave(folder: Path, where: str) -> None:
    """Rename the folder to `where`, `outbox` or `ready`."""
    target = folder.parent.parent / where / folder.name
    if target.exists():  # an earlier child, whose agent was killed, had finished the same work
        remove(folder)
        return
    move(folder, target)
