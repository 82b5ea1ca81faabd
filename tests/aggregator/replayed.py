"""What asynchronous rounds must have made of the updates that were accepted, computed from their order alone."""

from __future__ import annotations

from pathlib import Path

from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.staleness import discount, moved
from aggregator.fusion.types import Group, Memory, Received, Server
from aggregator.recipes.overrides import read_recipe
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.worker.stored_updates import base_arrays, received
from models.spec import PrototypeSpec, parse_prototype
from quant.pack import pack_state, unpack
from wire.tensors import Tensor

__all__ = ["accepted", "replay"]


def accepted(journal: Journal) -> list[tuple[str, int]]:
    """(device, job) of every update that was accepted, in order; of those that were not excluded."""
    rows = journal.db.execute("SELECT device, job FROM updates WHERE late = 0 AND excluded = '' ORDER BY number")
    return rows.fetchall()


def replay(
    state: Path, spec: tuple[tuple[int, ...], int, int], buffer: int, exponent: float = 0.5
) -> dict[int, dict[str, dict[str, Tensor]]]:
    """The models of every version (from 1), by prototype, as virtual time fuses the same updates in the same order.

    `spec` is input shape, classes and size of the latent. Every `buffer` updates are fused; of two of one device the
    later counts.
    """
    journal, blobs = Journal(state / "journal.db", read_only=True), Blobs(state / "blobs")
    order, memory = accepted(journal), Memory()
    digests = {m.prototype: m.digest for m in journal.models() if m.origin == "start"}
    of_round = {(m.round, m.prototype): m.digest for m in journal.models() if m.origin == "fused"}
    rows = {row.job: row for r in journal.rounds() for row in journal.updates(r.number)}
    closed = [row for row in reversed(journal.rounds()) if row.phase == "closed"]
    versions: dict[int, dict[str, dict[str, Tensor]]] = {}
    for version, row in enumerate(closed, start=1):
        latest = dict(order[(version - 1) * buffer : version * buffer])  # device: job
        current = {name: unpack(base_arrays(blobs.read(digest))) for name, digest in digests.items()}
        updates: dict[str, list[Received]] = {}
        for device, number in sorted(latest.items()):
            job = journal.job(number)
            assert job is not None
            share = discount(version - 1 - job.version, exponent)
            began = base_arrays(blobs.read(job.model))
            update = received(rows[number], blobs, began)
            fresh = job.model == digests[job.prototype]
            tensors = update.state() if fresh else moved(update.state(), unpack(began), current[job.prototype], share)
            made = Received(device=device, num_examples=update.num_examples, state=lambda tensors=tensors: tensors)
            updates.setdefault(job.prototype, []).append(made)
        groups = [
            Group(spec=PrototypeSpec(*parse_prototype(name), *spec), previous=current[name], updates=updates[name])
            for name in sorted(updates)
        ]
        fused = fuse_round(read_recipe(row.recipe), groups, Server(), row.number, memory)
        memory = fused.memory
        floats = {name: "fp32" if name.endswith("fp32") else "fp16" for name in updates}
        versions[version] = {n: pack_state(dict(fused.states[n]), floats=floats[n]) for n in updates}
        digests |= {name: of_round[row.number, name] for name in updates}
    journal.close()
    return versions
