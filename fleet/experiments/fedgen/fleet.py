"""FedGen's fleet (Zhu et al. 2021): 20 users with MNIST, ten of them in a round, and its rounds.

Rounds are made of the parts that the aggregator has, without the wire between them (`fuse_round`); the users of a round
train as one (`stack.py`), which a test holds against what devices do. The order of a round is the authors':
select, send to everybody, train, generator, average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from aggregator.fusion.generator.side_artifact import SideArtifact
from aggregator.fusion.numerics.vectors import is_statistic
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Fused, Group, Memory, Received, Server, State
from aggregator.recipes.catalogue import Recipe, find_recipe
from aggregator.rounds.sampling import draw
from edge_agent.objectives.fedgen_weights import Guidance
from edge_agent.objectives.select import guidance_rng
from fleet.experiments.base import UNCAPPED
from fleet.experiments.fedgen.losses import Generated, cross_entropy, distilled, draw_round, guided
from fleet.experiments.fedgen.patches import Scratch
from fleet.experiments.fedgen.plans import MODEL, PREDICTOR, Plan
from fleet.experiments.fedgen.stack import Pull, Stack, Targets
from fleet.experiments.fedgen.users import Stream, Users
from fleet.simulation.seeds import numpy_rng, torch_rng
from models.build import build
from models.latents import LABELS, PROTOTYPE, Latents
from models.roles import LABEL_LOGITS
from models.spec import PrototypeSpec, parse_prototype
from wire.messages import ModelHeader

__all__ = ["Fleet"]


@dataclass(frozen=True, slots=True)
class _Labels:
    """FedDistill: sums of logits and counts by user and label, over all rounds; the authors' counts start at 1."""

    sums: Tensor  # (N, C, C)
    counts: Tensor  # (N, C)

    def add(self, users: Tensor, logits: Tensor, y: Tensor) -> None:
        """Count a step: logits (K, C, B), labels (K, B)."""
        seen = torch.nn.functional.one_hot(y, logits.shape[1]).float()  # (K, B, C)
        self.sums.index_add_(0, users, torch.bmm(seen.mT, logits.mT))
        self.counts.index_add_(0, users, seen.sum(1))

    def means(self, user: int) -> Tensor:
        """(C, C)."""
        return self.sums[user] / self.counts[user][:, None]


class Fleet:
    """Users and aggregator; `rounds` runs it."""

    def __init__(self, users: Users, plan: Plan, *, seed: int) -> None:
        self.users, self.plan, self.seed = users, plan, seed
        self.recipe: Recipe = find_recipe(plan.recipe, {**UNCAPPED, **plan.fusion})
        self.spec = PrototypeSpec(*parse_prototype("cnn:fp32"), tuple(users.x.shape[1:]), users.classes, 32)
        start = build(self.spec, generator=torch_rng(seed, "init")).state_dict()
        self.state: State = {n: t.clone() for n, t in start.items() if not n.endswith("num_batches_tracked")}
        self.models = Stack.of([self.state] * plan.devices)  # every user's own
        self.server = Server(seed=seed, source=users.proxy)
        self._memory, self._side_artifact = Memory(), None
        self._scratch = Scratch()
        self._lr = torch.full((plan.devices,), plan.lr)
        self._streams = [Stream(own, numpy_rng(seed, "batches", k)) for k, own in enumerate(users.own)]
        classes = users.classes
        self._labels = _Labels(torch.zeros(plan.devices, classes, classes), torch.ones(plan.devices, classes))

    _side_artifact: SideArtifact | None

    def rounds(self) -> Iterator[int]:
        """After every round: its number. `send` has then not been called, so `models` are as they were trained."""
        for number in range(1, self.plan.rounds + 1):
            self.send()
            chosen = self._select(number)
            drawn = self._train(chosen, number)
            fused = self._fuse(chosen, drawn, number)
            self.state = dict(fused.states[str(self.spec)])
            self._memory, self._side_artifact = fused.memory, fused.side_artifact or self._side_artifact
            yield number

    def send(self) -> None:
        """Give every user what is shared of the global model."""
        for name, tensor in self.models.tensors.items():
            if self._shared(name):
                tensor.copy_(self.state[name].expand_as(tensor))

    def _shared(self, name: str) -> bool:
        share = self.plan.share
        if share == MODEL:
            return not (self.plan.local_norms and is_statistic(name))
        return share == PREDICTOR and name.startswith("predictor.")

    def _select(self, number: int) -> Tensor:
        return torch.tensor(draw(range(self.plan.devices), self.plan.active, self.seed, "invite", number))

    def _train(self, chosen: Tensor, number: int) -> Tensor:
        """Local training of the chosen users, in place; the labels (S, K, B) that they drew."""
        plan, users = self.plan, self.users
        taken = np.stack([self._streams[k].take(plan.steps * plan.batch) for k in chosen.tolist()])
        rows = torch.from_numpy(taken.reshape(len(chosen), plan.steps, plan.batch)).transpose(0, 1).contiguous()
        y = users.y[rows]
        stack = Stack({name: tensor[chosen] for name, tensor in self.models.tensors.items()}, self._scratch)
        pull = Pull(self.state, *plan.pull) if any(plan.pull) else None
        how = Guidance.from_extra(self.recipe.local)
        generated = self._generated(chosen, y, how, number)
        for step in range(plan.steps):
            on = generated is not None and (not how.steps or step < how.steps)
            columns = generated.z[step] if on and generated is not None else None
            targets = self._targets(y[step], generated.labels[step] if on and generated is not None else None, number)
            images = users.x[rows[step].flatten()].view(*rows[step].shape, *users.x.shape[1:])
            logits = stack.step(images, targets, lr=self._lr[chosen], generated=columns, pull=pull)
            if self.recipe.label_logits is not None:
                self._labels.add(chosen, logits, y[step])
        for name, tensor in self.models.tensors.items():
            tensor[chosen] = stack.tensors[name]
        self._lr[chosen] = plan.lr * plan.lr_decay ** (number - 1)
        return y

    def _targets(self, y: Tensor, drawn: Tensor | None, number: int) -> Targets:
        if drawn is not None:
            return guided(y, drawn, Guidance.from_extra(self.recipe.local), number)
        if self.recipe.label_logits is not None and self._side_artifact is not None:
            return distilled(y, self._side_artifact.tensors[LABEL_LOGITS], self.recipe.local["label_logits"])
        return cross_entropy(y)

    def _generated(self, chosen: Tensor, y: Tensor, how: Guidance, number: int) -> Generated | None:
        made = self._side_artifact
        if made is None or self.recipe.generation is None:
            return None
        tensors = {name: tensor.numpy() for name, tensor in made.tensors.items()}
        if self.recipe.generation.labels == "uniform":  # the authors' users draw all labels, their generator those seen
            tensors[LABELS] = np.full(made.classes, 1 / made.classes, np.float32)
        header = ModelHeader(
            round=number,
            prototype=made.prototype,
            input_shape=made.input_shape,
            classes=made.classes,
            latent=made.latent,
            recipe=self.recipe.name,
        )
        assert made.prototype.startswith(PROTOTYPE)
        rngs = [guidance_rng(self.seed, number, _name(k)) for k in chosen.tolist()]
        return draw_round(Latents.from_tensors(tensors, header), how, number, y, rngs)

    def _fuse(self, chosen: Tensor, drawn: Tensor, number: int) -> Fused:
        updates = [self._update(k, drawn[:, at]) for at, k in enumerate(chosen.tolist())]
        group = Group(spec=self.spec, previous=self.state, updates=updates)
        return fuse_round(self.recipe, [group], self.server, number, self._memory)

    def _update(self, user: int, drawn: Tensor) -> Received:
        whole = {name: tensor[user].clone() for name, tensor in self.models.tensors.items()}
        counts: Sequence[int] = self.users.counts[user]
        if self.plan.round_counts:
            counts = torch.bincount(drawn.flatten(), minlength=self.users.classes).tolist()
        alone = self.plan.share == PREDICTOR
        sent = {n: t for n, t in whole.items() if n.startswith("predictor.")} if alone else whole
        return Received(
            device=_name(user),
            num_examples=len(self.users.own[user]),
            state=partial(dict, sent),
            label_counts=tuple(counts),
            predictor_only=alone,
            model=self.plan.share in (MODEL, PREDICTOR),
            extra=partial(dict, {LABEL_LOGITS: self._labels.means(user)} if self.recipe.label_logits else {}),
        )


def _name(user: int) -> str:
    return f"user-{user:02}"
