"""The side artifact that devices learn from in addition to their samples, created at the end of a round.

FedGen: a generator, trained from the predictors of all prototypes (`train.py`), and p(y). FedDistill: the mean
logits of every label. Both are published like a model (`SideArtifact` has the fields of its header), one for the fleet.
Generator and Adam's moments are stored in the recipe's memory, so that they survive a restart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from aggregator.fusion.generator.feddistill import average_label_logits
from aggregator.fusion.generator.train import Generated, Teachers, train_generator
from aggregator.fusion.numerics.adam import Adam
from aggregator.fusion.types import Memory, Received, Server, State
from aggregator.recipes.generator import Generation
from models.compute_device import CPU
from models.generator import LatentGenerator, build_generator
from models.latents import LABELS, prototype_of
from models.on_device import on_device
from models.roles import LABEL_LOGITS, slice_state
from models.seeding import torch_rng
from wire.messages import ModelHeader

__all__ = ["SideArtifact", "generator_of", "label_counts", "make_generator", "make_label_logits", "predictors_of"]

_STATE, _FIRST, _SECOND, _STEPS = "generator.state.", "generator.first.", "generator.second.", "generator.steps"
_SHARES = "generator.labels"
NOT_KEPT = "num_batches_tracked"  # unused, because BatchNorm's momentum is set


@dataclass(frozen=True, slots=True, kw_only=True)
class SideArtifact:
    """One artifact for all devices."""

    prototype: str
    input_shape: tuple[int, ...]
    classes: int
    latent: int
    tensors: State
    metrics: Mapping[str, float] = field(default_factory=dict)

    def header(self, round_number: int, recipe: str) -> ModelHeader:
        """As it is published after round `round_number`: like a model."""
        return ModelHeader(
            round=round_number,
            prototype=self.prototype,
            input_shape=self.input_shape,
            classes=self.classes,
            latent=self.latent,
            recipe=recipe,
            metrics=dict(self.metrics),
        )


def predictors_of(updates: Sequence[Received]) -> Teachers:
    """The predictors of whole models and of predictor-only updates."""
    return Teachers.stack([slice_state(update.state(), "predictor") for update in updates])


def label_counts(updates: Sequence[Received], classes: int) -> Tensor:
    """(K, C); if a device reports none, or only zeros, its examples are spread over all labels."""
    rows = [u.label_counts if any(u.label_counts) else (u.num_examples / classes,) * classes for u in updates]
    return torch.tensor(rows, dtype=torch.float32)


def generator_of(
    config: Generation, classes: int, latent: int, server: Server, memory: Memory
) -> tuple[LatentGenerator, Adam, Tensor | None]:
    """The current generator, its optimizer, and p(y) of the last round: None if it starts from scratch."""
    generator = build_generator(
        classes,
        latent,
        noise_width=config.noise_width,
        hidden=config.hidden,
        noise=config.noise,
        generator=torch_rng(server.seed, "generator"),
    )
    params = list(generator.parameters())
    kept = {n.removeprefix(_STATE): t for n, t in memory.tensors.items() if n.startswith(_STATE)}
    if {n: t.shape for n, t in kept.items()} != {n: t.shape for n, t in _travelling(generator).items()}:
        return generator, Adam.fresh(params), None
    generator.load_state_dict(kept, strict=False)
    first, second = ([memory.tensors[f"{at}{i}"].clone() for i in range(len(params))] for at in (_FIRST, _SECOND))
    return generator, Adam(first, second, int(memory.facts[_STEPS])), memory.tensors[_SHARES]


def make_generator(
    config: Generation,
    updates: Sequence[Received],
    server: Server,
    round_number: int,
    memory: Memory,
    trust: Sequence[float] | None = None,
) -> SideArtifact | None:
    """Train the generator for this round, store it in `memory`, and return the artifact to publish.

    None, with unchanged memory, if predictors near the limits of float32 made it non-finite, or no trusted device
    reports any label to draw: the previous one is kept.
    """
    teachers = predictors_of(updates)
    _, classes, latent = teachers.weight.shape
    counts = label_counts(updates, classes)
    believed = None if trust is None else torch.tensor(trust, dtype=torch.float32)
    if not float((counts if believed is None else counts * believed[:, None]).sum()) > 0:
        return None
    generator, adam, _ = generator_of(config, classes, latent, server, memory)
    adam = adam.to(server.device)
    with on_device(generator, server.device):
        trained = train_generator(
            generator,
            adam,
            teachers,
            counts,
            config,
            round_number=round_number,
            rng=torch_rng(server.seed, "fusion", round_number, "generator"),
            trust=believed,
        )
    adam = adam.to(CPU)
    state = _travelling(generator)
    if not all(bool(tensor.isfinite().all()) for tensor in state.values()):
        return None
    _remember(memory, state, adam, trained.labels)
    return _published(config, teachers, trained, state)


def _published(config: Generation, teachers: Teachers, trained: Generated, state: State) -> SideArtifact:
    _, classes, latent = teachers.weight.shape
    losses = {"teacher_loss": trained.teacher_loss, "diversity_loss": trained.diversity_loss}
    return SideArtifact(
        prototype=prototype_of(config.noise),
        input_shape=(config.noise_width,),
        classes=classes,
        latent=latent,
        tensors={**state, LABELS: trained.labels},
        metrics={n: loss for n, loss in losses.items() if math.isfinite(loss)},
    )


def _remember(memory: Memory, state: State, adam: Adam, labels: Tensor) -> None:
    """Store the generator and its optimizer in the memory, for `generator_of` in the next round."""
    memory.tensors.update({_STATE + name: tensor for name, tensor in state.items()})
    memory.tensors.update({f"{_FIRST}{i}": m for i, m in enumerate(adam.first)})
    memory.tensors.update({f"{_SECOND}{i}": m for i, m in enumerate(adam.second)})
    memory.tensors[_SHARES] = labels
    memory.facts[_STEPS] = adam.steps


def make_label_logits(
    updates: Sequence[Received], classes: int, latent: int, *, reference: bool
) -> SideArtifact | None:
    """FedDistill's average; None if no device has sent logits. `reference`: zeros of unseen labels count too."""
    read = [(update, update.extra()) for update in updates]
    sent = [(update, extra[LABEL_LOGITS]) for update, extra in read if LABEL_LOGITS in extra]
    if not sent:
        return None
    seen = None if reference else label_counts([u for u, _ in sent], classes) > 0
    return SideArtifact(
        prototype=f"{LABEL_LOGITS}:mean",
        input_shape=(classes,),
        classes=classes,
        latent=latent,
        tensors={LABEL_LOGITS: average_label_logits([logits for _, logits in sent], seen)},
    )


def _travelling(generator: LatentGenerator) -> State:
    state = generator.state_dict()
    return {name: t.detach().clone() for name, t in state.items() if not name.endswith(NOT_KEPT)}
