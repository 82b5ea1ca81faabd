"""Fuses a stored round: updates from disk in, the next model of every prototype, its scores and its artifact out.

A model's artifact has its full-precision state, as float16 for prototypes whose devices quantize it anyway. The same
updates give the same bits: they are processed in the order of their device ids, and nothing depends on the time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aggregator.evaluate import mean_train_loss, score_state
from aggregator.fusion.generator.side_artifact import SideArtifact
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.staleness import discount, moved
from aggregator.fusion.types import Fused, Group, Memory, Received, Server
from aggregator.recipes.catalogue import Recipe
from aggregator.storage.artifacts import open_artifact, seal_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import UpdateRow
from aggregator.worker.first_model import first_model, wire_floats
from aggregator.worker.stored_updates import base_arrays, received
from models.build import build
from models.roles import EXTRACTOR_ROUND, slice_state
from models.spec import PrototypeSpec
from models.split import Prototype
from quant.pack import pack_state, unpack
from wire.keys import Ed25519PrivateKey
from wire.messages import ModelHeader, Task
from wire.tensors import encode

__all__ = ["Fuser", "Start", "StoredGroup", "round_groups"]

PARENTS = 900  # limit of a header; the journal has all of them
PARENTS_WITH_TASK = 300  # beside the names of classes
State = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Start:
    """The model that a stale update started from, and the part of the update that counts."""

    model: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """One prototype in one round according to the journal; rows are in the order of their device ids."""

    spec: PrototypeSpec
    base: str  # the published model
    rows: Sequence[UpdateRow]
    late: Sequence[tuple[UpdateRow, str]] = ()  # of an earlier round, each with the model that it started from
    stale: Mapping[str, Start] = field(default_factory=dict)  # by device: updates that started from older models
    unchanged: bool = False  # add the published model, as if a device had sent it back; see examine.py


class _Bases(dict[str, dict[str, NDArray[Any]]]):
    """Published models as arrays, by digest, each read once."""

    def __init__(self, blobs: Blobs) -> None:
        super().__init__()
        self._blobs = blobs

    def __missing__(self, digest: str) -> dict[str, NDArray[Any]]:
        self[digest] = base_arrays(self._blobs.read(digest))
        return self[digest]


@dataclass(slots=True)
class Fuser:
    """Inputs shared by all prototypes and rounds."""

    blobs: Blobs
    key: Ed25519PrivateKey
    fleet: str
    validation: tuple[torch.Tensor, torch.Tensor] | None = None  # to score published models on
    server: Server = field(default_factory=Server)  # the aggregator's inputs of fusion
    task: Task | None = None  # what every published model tells of samples and classes
    models: dict[PrototypeSpec, Prototype] = field(default_factory=dict)  # to score with; their weights are replaced

    def start(self, spec: PrototypeSpec, seed: int) -> tuple[str, ModelHeader]:
        """The initial model of a prototype, determined by seed and prototype."""
        model, state = first_model(spec, seed)
        return self._publish(model, state, round=0, recipe="start", parents=(), metrics={})

    def on(self, processes: int) -> Fuser:
        """The same with at least so many processes for students."""
        return replace(self, server=replace(self.server, processes=max(self.server.processes, processes)))

    def fuse(
        self, recipe: Recipe, round_number: int, groups: Sequence[StoredGroup], memory: Memory
    ) -> tuple[list[tuple[str, ModelHeader]], Fused]:
        """The next model of every prototype with timely updates, and the fusion report of the round."""
        bases = _Bases(self.blobs)
        fused = self.compute(recipe, round_number, groups, memory, bases)
        made = []
        for group in groups:
            if not group.rows:
                continue  # only late teachers: the prototype's model does not change
            name = str(group.spec)
            most = PARENTS if self.task is None else PARENTS_WITH_TASK
            parents = (group.base, *(row.digest for row in group.rows))[:most]
            state = _as_published(fused.states[name], bases[group.base])
            metrics = {**_train_loss(group.rows, fused), **fused.metrics[name]}
            metrics |= self._extractor_round(group, state, bases[group.base], round_number)
            made.append(
                self._publish(
                    self._model(group.spec),
                    state,
                    round=round_number,
                    recipe=recipe.name,
                    parents=parents,
                    metrics=metrics,
                )
            )
        if fused.side_artifact is not None:
            made.append(self._publish_side_artifact(fused.side_artifact, round_number, recipe.name))
        return made, fused

    def compute(
        self,
        recipe: Recipe,
        round_number: int,
        groups: Sequence[StoredGroup],
        memory: Memory,
        bases: _Bases | None = None,
    ) -> Fused:
        """The result of fusion; nothing is written."""
        models = _Bases(self.blobs) if bases is None else bases
        taken = [self._group(group, models, label_counts=recipe.uses_label_counts) for group in groups]
        return fuse_round(recipe, taken, self.server, round_number, memory)

    def _extractor_round(
        self, group: StoredGroup, state: State, base: Mapping[str, NDArray[Any]], round_number: int
    ) -> dict[str, float]:
        """The last round that changed the published extractor: this one, or that of the model before, if any."""
        tensors = pack_state(slice_state(state, "extractor"), floats=wire_floats(group.spec))
        if any(not np.array_equal(np.asarray(tensor), base[name]) for name, tensor in tensors.items()):
            return {EXTRACTOR_ROUND: float(round_number)}
        before = open_artifact(self.blobs.read(group.base))[0].metrics
        return {EXTRACTOR_ROUND: before[EXTRACTOR_ROUND]} if EXTRACTOR_ROUND in before else {}

    def _publish_side_artifact(self, made: SideArtifact, round_number: int, recipe: str) -> tuple[str, ModelHeader]:
        """The side artifact: sealed like a model, float16, the same for all prototypes."""
        header = made.header(round_number, recipe)
        body = encode(pack_state(made.tensors, floats="fp16"))
        return self.blobs.put(seal_artifact(header, body, key=self.key, fleet=self.fleet)), header

    def _group(self, group: StoredGroup, bases: _Bases, *, label_counts: bool) -> Group:
        base = bases[group.base]

        def read(row: UpdateRow) -> Received:
            start = group.stale.get(row.device)
            began = base if start is None else bases[start.model]
            update = received(row, self.blobs, began, label_counts=label_counts)
            return update if start is None else _moved(update, began, base, start.share)

        updates: list[Received] = [read(row) for row in group.rows]
        updates += [received(row, self.blobs, bases[digest], late=True) for row, digest in group.late]
        if group.unchanged:
            updates.append(Received(device="unchanged", num_examples=1, state=lambda: unpack(base)))
        return Group(spec=group.spec, previous=unpack(base), updates=updates)

    def _model(self, spec: PrototypeSpec) -> Prototype:
        if spec not in self.models:
            self.models[spec] = build(spec)
        return self.models[spec]

    def _scores(self, model: Prototype, state: State) -> dict[str, float]:
        """Scores of a model as boards receive it, if there are labelled samples."""
        if self.validation is None:
            return {}
        floats, device = wire_floats(model.spec), self.server.device
        return score_state(model, state, *self.validation, floats=floats, device=device)

    def _publish(
        self,
        model: Prototype,
        state: State,
        *,
        round: int,  # noqa: A002 - the word of the protocol
        recipe: str,
        parents: tuple[str, ...],
        metrics: dict[str, float],
    ) -> tuple[str, ModelHeader]:
        spec = model.spec
        scores = self._scores(model, state)
        header = ModelHeader(
            round=round,
            prototype=str(spec),
            input_shape=spec.input_shape,
            classes=spec.classes,
            latent=model.latent,
            recipe=recipe,
            parents=parents,
            metrics={name: value for name, value in {**metrics, **scores}.items() if math.isfinite(value)},
            task=self.task,
        )
        body = encode(pack_state(state, floats=wire_floats(spec)))
        return self.blobs.put(seal_artifact(header, body, key=self.key, fleet=self.fleet)), header


def _moved(
    update: Received, began: Mapping[str, NDArray[Any]], current: Mapping[str, NDArray[Any]], share: float
) -> Received:
    """A stale update as it is fused."""
    return replace(update, state=lambda: moved(update.state(), unpack(began), unpack(current), share))


def _train_loss(rows: Sequence[UpdateRow], fused: Fused) -> dict[str, float]:
    reported = [(r.metrics.get("train_loss", math.nan), fused.counted(r.device, r.num_examples)) for r in rows]
    loss = mean_train_loss(reported)
    return {} if loss is None else {"train_loss": loss}


def _as_published(state: Mapping[str, torch.Tensor], base: Mapping[str, NDArray[Any]]) -> State:
    """`state` with integer tensors where the previous model has them: their mean is a float."""
    dtypes = {
        name: torch.from_numpy(np.empty(0, base[name].dtype)).dtype for name in state if base[name].dtype.kind != "f"
    }
    return {name: w.round().to(dtypes[name]) if name in dtypes else w for name, w in state.items()}


def round_groups(journal: Journal, round_number: int, spec: Callable[[str], PrototypeSpec]) -> list[StoredGroup]:
    """A round according to the journal, by prototype, with the late updates recorded when fusing began."""
    rows: dict[str, list[UpdateRow]] = defaultdict(list)
    for row in journal.updates(round_number):
        rows[row.prototype].append(row)
    bases = {i.prototype: i.model for i in journal.invitations(round_number)}
    late: dict[str, list[tuple[UpdateRow, str]]] = defaultdict(list)
    for row, model in journal.late_teachers(round_number):
        late[row.prototype].append((row, model))
    current = journal.current()
    groups = []
    for name in sorted({*rows, *late}):
        base = bases.get(name) or current[name].digest
        stale = _starts(journal, round_number, base, rows[name])
        groups.append(StoredGroup(spec=spec(name), base=base, rows=rows[name], late=late[name], stale=stale))
    return groups


def _starts(journal: Journal, round_number: int, base: str, rows: Sequence[UpdateRow]) -> dict[str, Start]:
    """The updates of an asynchronous round that were trained from another model than the one that is current."""
    row, staleness = journal.round(round_number), journal.staleness(round_number)
    exponent = 0.0 if row is None else row.staleness
    found = {}
    for update in rows:
        job = journal.job(update.job) if update.job else None
        if job is not None and job.model != base:
            found[update.device] = Start(job.model, discount(staleness[update.device], exponent))
    return found
