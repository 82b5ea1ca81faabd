"""What FedRAD's code does (Sturluson et al. 2021) and no part of ours has, for reference fidelity.

Its dropout is never switched off: neither in testing nor in the teachers, whose logits, medians and scores all carry
that noise. Its loss is in `fleet/experiments/fedrad/step.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aggregator.fusion.students.distill import distill
from aggregator.fusion.teachers.ensemble import Ensemble
from aggregator.fusion.teachers.logits import Forward
from aggregator.fusion.types import DeviceReport, Fused, Group, Memory, Received, Server, State, View
from aggregator.recipes.catalogue import Recipe
from aggregator.recipes.parts import find_part
from models.build import build
from models.seeding import seeded, torch_rng
from models.spec import PrototypeSpec
from models.split import Prototype

__all__ = ["DropoutTeacher", "dropout_error", "fuse_with_dropout"]

BATCH = 1000  # images that are tested at once


@torch.no_grad()
def dropout_error(model: Prototype, x: Tensor, y: Tensor, rng: torch.Generator) -> float:
    """The share of wrong answers while dropout is on."""
    model.train()
    with seeded(rng):
        answers = torch.cat([model(batch).argmax(1) for batch in x.split(BATCH)])
    return float((answers != y).double().mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutTeacher:
    """A received model that answers with dropout on."""

    device: str
    spec: PrototypeSpec
    state: Callable[[], State]
    rng: torch.Generator

    @property
    def classes(self) -> int | None:
        """Of the prototype."""
        return self.spec.classes

    def prepare(self, where: torch.device) -> None:
        """Nothing."""

    def open(self, where: torch.device) -> Forward:
        """The model in training mode; gradients are off."""
        model = build(self.spec).to(where)
        model.load_state_dict(self.state())
        model.train()

        @torch.no_grad()
        def forward(x: Tensor) -> Tensor:
            with seeded(self.rng):
                logits: Tensor = model(x.to(where))
            return logits.cpu()

        return forward


def fuse_with_dropout(recipe: Recipe, groups: Sequence[Group], server: Server, number: int, memory: Memory) -> Fused:
    """`fuse_round` for one prototype and a recipe that distills, with teachers that answer with dropout on.

    One pass of the teachers gives scores and targets; the authors' code makes a pass for each.
    """
    (group,) = groups
    assert server.source is not None, "the recipe distills"
    assert recipe.teach is not None
    start = time.perf_counter()
    teachers = [_teacher(group.spec, update, server.seed, number) for update in group.updates]
    scored = recipe.weigh == "median-score"
    ensemble = Ensemble(teachers, server.source, teach=find_part("teach", recipe.teach), scored=scored, workers=1)
    view = View(
        spec=group.spec,
        number=number,
        previous=group.previous,
        updates=group.updates,
        memory=memory,
        options=recipe.options,
        server=server,
        ensemble=ensemble,
    )
    weights = find_part("weigh", recipe.weigh)(view)
    average = find_part("average", recipe.average)(view, weights)
    targets = ensemble.taught()
    taught = time.perf_counter()
    done = distill(build(group.spec), average, server.source, targets, recipe.distill, generator=view.rng("distill"))
    return Fused(
        states={group.name: done.state},
        memory=memory,
        devices={u.device: DeviceReport(weight=w / sum(weights)) for u, w in zip(group.updates, weights, strict=True)},
        metrics={group.name: {"distill_best_step": float(done.best_step)}},
        seconds={"teach": taught - start, "distill": time.perf_counter() - taught},
    )


def _teacher(spec: PrototypeSpec, update: Received, seed: int, number: int) -> DropoutTeacher:
    rng = torch_rng(seed, "dropout", number, update.device)
    return DropoutTeacher(device=update.device, spec=spec, state=lambda: dict(update.state()), rng=rng)
