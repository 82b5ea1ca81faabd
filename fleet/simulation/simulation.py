"""A fleet on one machine: N devices, one model per prototype, rounds of local training and fusion.

Every update passes through the real encoding (`wire/`). It is not signed; its size is counted as that of the sealed
update, so a run reports the bytes that would be transmitted. The engine (`fleet/engines/`) decides where
the devices train.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from aggregator.evaluate import Score, count, mean_train_loss
from aggregator.fusion import types as fusion
from aggregator.fusion.generator import side_artifact as fusion_side_artifact
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.process_pool import lent
from aggregator.fusion.types import Memory, Received
from aggregator.recipes.catalogue import find_recipe
from aggregator.rounds.sampling import sample
from core import own_code
from core.errors import ConfigError, DataError
from fleet.data import Dataset, hold_out
from fleet.engines import Task, make_engine
from fleet.engines.base import Scoring
from fleet.engines.threads import one_thread
from fleet.engines.work import Bench
from fleet.fast.grouping import in_batches
from fleet.fast.sample_store import view_of
from fleet.results.run_file import PrototypeResult, RoundResult, Run, reported_metrics
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import Answer, SimulatedDevice, make_devices
from fleet.simulation.hooks import NO_HOOKS, Hooks
from fleet.simulation.inputs.kinds import check_kinds
from fleet.simulation.inputs.server_side import server_side
from fleet.simulation.own_model import has_model, own_model
from fleet.simulation.own_slice import OwnScore, own_score, spread_of, with_scores
from fleet.simulation.received import Sent, read_answer
from fleet.simulation.round_message import Artifact, News, PublishedSideArtifact
from fleet.simulation.seeds import torch_rng
from fleet.simulation.settings.layers import about
from fleet.simulation.specs import spec_of
from models.build import build
from models.split import Prototype
from quant.pack import pack_state, unpack
from wire.messages import ModelHeader
from wire.tensors import encode

__all__ = ["Group", "Simulation"]

OnDevice = Callable[[str], None]
AT_ONCE = 8  # own models of devices scored at once
UNSCORED: dict[str, Any] = {"accuracy": math.nan, "loss": math.nan}


@dataclass(slots=True, kw_only=True)
class Group:
    """One prototype: its devices, and the aggregator's model of it."""

    name: str
    devices: list[SimulatedDevice]
    model: Prototype
    state: dict[str, torch.Tensor]  # full precision
    shapes: dict[str, tuple[int, ...]]  # required shapes of an update's tensors


class Simulation:
    """A fleet and its aggregator; call `run_round(1)`, `run_round(2)`, … in turn, then `close()`."""

    def __init__(self, config: SimulationConfig, dataset: Dataset, *, hooks: Hooks = NO_HOOKS) -> None:
        if hooks.in_workers and config.engine == "ray":
            raise ConfigError("engine 'ray' does not support hooks; use --engine processes or inline")
        self.config, self.hooks = config, hooks
        self.recipe = find_recipe(config.recipe, config.fusion)
        check_kinds(config.prototypes, dataset.kind, dataset.name)
        dataset = dataset if len(dataset.y_test) else hold_out(dataset, seed=config.seed)
        if not len(dataset.y_test):
            samples = len(dataset.y_train)
            raise DataError(f"{dataset.name}: {samples} samples, too few to hold out a test set; give more")
        self.test_x = view_of(dataset.test_inputs())
        self.test_y = torch.from_numpy(dataset.y_test.copy())
        self.server, dataset = server_side(config, self.recipe, dataset, (self.test_x, self.test_y))
        self.server = replace(self.server, make_teacher=hooks.teacher)
        self.dataset = dataset
        self.devices = make_devices(config, dataset, hooks)
        self.memory = Memory()
        self.side_artifact: PublishedSideArtifact | None = None
        self.changed: list[SimulatedDevice] = []  # their local state changed since the last checkpoint
        self.groups = [self._make_group(name, dataset) for name in config.prototypes]
        bench = Bench(
            devices=self.devices,
            models={group.name: group.model for group in self.groups},
            test=(self.test_x, self.test_y),
            count=hooks.count or count,
            device=self.server.device,
        )
        self.engine = make_engine(config.engine, bench, workers=config.workers, address=config.address)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine's processes."""
        self.engine.close()

    def _make_group(self, name: str, dataset: Dataset) -> Group:
        with about("prototypes"):
            spec = spec_of(name, self.config, dataset)
            model = build(spec, generator=torch_rng(self.config.seed, "init", name))
        state = unpack(pack_state(model.state_dict(), floats="fp32"))
        shapes = {key: tuple(value.shape) for key, value in state.items()}
        mine = [d for d in self.devices if d.prototype == name]
        return Group(name=name, devices=mine, model=model, state=state, shapes=shapes)

    @property
    def update(self) -> str:
        """The kind of update that devices send."""
        return self.recipe.update or self.config.update

    @property
    def side_artifact_bytes(self) -> int:
        """Size of the published side artifact."""
        return 0 if self.side_artifact is None else len(self.side_artifact.body.data)

    def invited(self, group: Group, round_number: int) -> list[SimulatedDevice]:
        """The devices of the group that the aggregator invites to this round, sampled by seed and round."""
        there = {device.id: group.name for device in group.devices}
        chosen = sample(there, self.config.seed, round_number, fraction=self.config.fraction)
        return [device for device in group.devices if device.id in chosen]

    @property
    def per_round(self) -> int:
        """How many devices a round invites."""
        return sum(len(self.invited(group, 1)) for group in self.groups)

    def run_round(self, round_number: int, *, on_device: OnDevice = lambda _: None) -> RoundResult:
        """Invite, train, fuse and score every prototype, in one thread per process."""
        with one_thread():
            return self._run_round(round_number, on_device)

    def _run_round(self, round_number: int, on_device: OnDevice) -> RoundResult:
        start = time.perf_counter()
        published = {group.name: Artifact(self._published(group)) for group in self.groups}
        sent = self._collect(round_number, published, on_device)
        if self.hooks.received is not None:
            self.hooks.received(self, round_number, sent)
        scored = self.config.scores(round_number)
        groups = [self._fusion_group(group, published[group.name], sent) for group in self.groups]
        fused = self._fuse(groups, round_number, scored=scored)
        facts = {group.name: self._facts(group, published[group.name], sent, fused) for group in self.groups}
        self.memory = fused.memory
        if fused.side_artifact is not None:
            self.side_artifact = self._side_artifact(fused.side_artifact)
        for group in self.groups:
            group.state = dict(fused.states[group.name])
        begun = time.perf_counter()
        scores = self._scores() if scored else {group.name: UNSCORED for group in self.groups}
        own = self._own_scores(sent) if self.config.scores_devices(round_number) else {}
        for group in self.groups:
            scores[group.name] = {**scores[group.name], **self.spread(group, own)}
        end = time.perf_counter()
        return RoundResult(
            round=round_number,
            prototypes={
                name: PrototypeResult(**facts[name], **scores[name], **reported_metrics(fused.metrics[name]))
                for name in facts
            },
            seconds=end - start,
            side_artifact_bytes=self.side_artifact_bytes,
            devices=with_scores({name: asdict(report) for name, report in fused.devices.items()}, own),
            lost={s.device.id: s.answer.reason for s in sent if s.update is None},
            seconds_by={
                "train": sum(s.answer.train_s for s in sent),
                "encode": sum(s.answer.encode_s + s.read_s for s in sent),
                **fused.seconds,
                "score": fused.seconds.get("score", 0.0) + end - begun,
            },
        )

    def _fuse(self, groups: list[fusion.Group], round_number: int, *, scored: bool) -> fusion.Fused:
        """Fuse the round; students of several prototypes are distilled in parallel in the engine's workers."""
        together = max(self.server.processes, self.engine.workers)
        if self.engine.workers == 1 and self._has_own_code:
            together = 1  # fresh processes would not know it
        server = replace(self.server, processes=together, test=self.server.test if scored else None)
        with lent(self.engine if self.engine.workers > 1 else None):
            return fuse_round(self.recipe, groups, server, round_number, self.memory)

    @property
    def _has_own_code(self) -> bool:
        return any(own_code.found("model", group.model.spec.arch) is not None for group in self.groups)

    def _published(self, group: Group) -> bytes:
        floats = self.config.floats_of(group.model.spec.precision.quantized)
        return encode(pack_state(group.state, floats=floats))

    def _side_artifact(self, made: fusion_side_artifact.SideArtifact) -> PublishedSideArtifact:
        """The side artifact of the next round, encoded for the wire."""
        if self.hooks.side_artifact is not None:
            made = self.hooks.side_artifact(made)
        header = ModelHeader(
            round=0,
            prototype=made.prototype,
            input_shape=made.input_shape,
            classes=made.classes,
            latent=made.latent,
            recipe=self.recipe.name,
        )
        return PublishedSideArtifact(header, Artifact(encode(pack_state(made.tensors, floats="fp16"))))

    def _collect(self, round_number: int, published: dict[str, Artifact], on_device: OnDevice) -> list[Sent]:
        """Train the invited devices; their answers, in the order of their indices."""
        extra = self.recipe.local
        news = News(
            round_number=round_number,
            published=published,
            update=self.update,
            extra=extra,
            side_artifact=self.side_artifact,
        )
        self.engine.open(news)
        shapes = {group.name: group.shapes for group in self.groups}

        def read(task: Task, answer: Answer) -> Sent:
            device = self.devices[task.device]
            return read_answer(device, answer, shapes[device.prototype])

        sent = []
        for one in self.engine.train(self._batches(news), read):
            if one.answer.kept:
                one.device.kept.update(one.answer.kept)
                self.changed.append(one.device)
            sent.append(one)
            on_device(one.device.id)
        return sorted(sent, key=lambda one: one.device.number)

    def _batches(self, news: News) -> list[list[Task]]:
        """The invited devices, in batches that one worker trains as one stacked computation."""
        workers, at_most = self.engine.workers, self.config.batch_devices
        at_most = at_most if self.server.device.type == "cpu" else 1  # stacks are written for the CPU
        return [
            [Task(device.number, device.kept) for device in batch]
            for group in self.groups
            for batch in in_batches(
                self.invited(group, news.round_number), group.model, news, at_most=at_most, workers=workers
            )
        ]

    def _fusion_group(self, group: Group, published: Artifact, sent: list[Sent]) -> fusion.Group:
        updates = [s.update for s in sent if s.update is not None and s.device.prototype == group.name]
        spec, state = group.model.spec, group.state
        as_it_is = self.config.floats_of(spec.precision.quantized) == "fp32"  # the wire dtype rounds nothing
        previous = state if as_it_is else unpack(published.tensors)
        return fusion.Group(spec=spec, previous=previous, updates=updates)

    def _facts(self, group: Group, published: Artifact, sent: list[Sent], fused: fusion.Fused) -> dict[str, Any]:
        mine = [s for s in sent if s.update is not None and s.device.prototype == group.name]
        losses = [(s.loss, fused.counted(s.device.id, s.update.num_examples)) for s in mine if s.update is not None]
        return {
            "train_loss": mean_train_loss(losses),
            "devices": len(mine),
            "bytes_up": sum(s.size for s in mine),
            "bytes_down": (len(published.data) + self.side_artifact_bytes) * len(mine),
        }

    def _scores(self) -> dict[str, dict[str, Any]]:
        """Score the model of every prototype."""
        wanted = [
            (group.name, key, Scoring(group.name, Artifact(state), quantized=key == "accuracy"))
            for group in self.groups
            for key, state in self._to_score(group).items()
        ]
        scores: dict[str, dict[str, Any]] = {group.name: {} for group in self.groups}
        results = self._score([scoring for *_, scoring in wanted])
        for (name, key, _), score in zip(wanted, results, strict=True):
            scores[name] |= {key: score.accuracy, **({"loss": score.loss} if key == "accuracy" else {})}
        return scores

    def _to_score(self, group: Group) -> dict[str, bytes]:
        """A prototype's model as boards run it and, if it is quantized, with its float weights too."""
        quantized = group.model.spec.precision.quantized
        return {"accuracy": self._published(group), **({"accuracy_float": _full(group.state)} if quantized else {})}

    def _own_scores(self, sent: list[Sent]) -> dict[str, OwnScore]:
        return self.score_devices({s.device.id: s.trained for s in sent if s.trained is not None})

    def spread(self, group: Group, own: Mapping[str, OwnScore]) -> dict[str, Any]:
        """Mean, worst and best accuracy of the own models of the group's honest devices."""
        spread: dict[str, Any] = spread_of([own[d.id] for d in group.devices if d.id in own and d.attack is None])
        if "whole_accuracy" in spread and self.config.keeps_models:
            spread["device_accuracy"] = spread["whole_accuracy"]
        return spread

    def score_devices(self, trained: Mapping[str, Received]) -> dict[str, OwnScore]:
        """Score the own models of the devices that sent these updates, by device id."""
        models = {group.name: group.model for group in self.groups}
        mine = [
            device
            for device in self.devices
            if device.id in trained and has_model(device, trained[device.id], self.update)
        ]
        of_test = np.bincount(self.test_y.numpy(), minlength=mine[0].dataset.classes).tolist() if mine else []
        scores: dict[str, OwnScore] = {}
        for start in range(0, len(mine), AT_ONCE):
            some = mine[start : start + AT_ONCE]
            states = [own_model(d, models[d.prototype], trained[d.id], self.update) for d in some]
            scorings = [
                Scoring(d.prototype, Artifact(_full(w)), quantized=False) for d, w in zip(some, states, strict=True)
            ]
            for device, score in zip(some, self._score(scorings), strict=True):
                scores[device.id] = own_score(score, of_test, device.true_counts)
        return scores

    def _score(self, scorings: list[Scoring]) -> list[Score]:
        return [Score.of(tally, len(self.test_y)) for tally in self.engine.score(scorings)]

    def new_run(self) -> Run:
        """An empty run of this fleet."""
        facts = [
            {
                "device": d.id,
                "prototype": d.prototype,
                "examples": len(d.rows),
                "labels": list(d.label_counts),
                **({} if d.attack is None else {"attack": d.attack.name}),
            }
            for d in self.devices
        ]
        return Run(config=self.config.to_json(), fleet=facts)


def _full(state: Mapping[str, torch.Tensor]) -> bytes:
    return encode(pack_state(state, floats="fp32"))
