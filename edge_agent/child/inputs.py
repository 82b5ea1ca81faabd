"""The inputs of a training child, opened and checked: model, side artifact, samples. Imports no torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.errors import DataError, ModelError
from edge_agent.child.outbox import make_staging
from edge_agent.child.request import Request
from edge_agent.objectives.side_artifact import SideArtifact, open_side_artifact
from edge_agent.training.params import LocalTraining
from edge_agent.training.samples import split
from models.samples import Samples, load_samples
from models.spec import PrototypeSpec, parse_prototype
from wire.envelope import open_envelope
from wire.headers import decode_model
from wire.ids import AGGREGATOR
from wire.keys import public_key_from_hex
from wire.messages import Hyper, ModelHeader

__all__ = ["Assignment", "Tell", "local_training", "open_assignment", "stopper"]

#: Reports progress: an event name, and its fields.
Tell = Callable[..., None]
PROGRESS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One piece of work with all its inputs."""

    request: Request
    header: ModelHeader
    published: bytes  # tensors
    side_artifact: SideArtifact
    train: Samples
    held: Samples | None
    folder: Path  # in staging/

    @property
    def spec(self) -> PrototypeSpec:
        """The prototype."""
        header = self.header
        arch, precision = parse_prototype(header.prototype)
        return PrototypeSpec(arch, precision, header.input_shape, header.classes, header.latent)

    @property
    def label_counts(self) -> tuple[int, ...]:
        """Label counts of the training samples."""
        return tuple(int(n) for n in np.bincount(self.train.y, minlength=self.header.classes))


def open_assignment(request: Request) -> Assignment:
    """Check and unpack the model and the side artifact, read the samples."""
    key = public_key_from_hex(request.aggregator)
    sealed = Path(request.model).read_bytes()
    envelope = open_envelope(sealed, public_key=key, fleet=request.fleet, sender=AGGREGATOR, kinds=("model",))
    header, published = decode_model(envelope.payload)
    if header.prototype != request.prototype:
        raise ModelError(f"model {request.base[:12]}… is {header.prototype}, this device has {request.prototype}")
    side_artifact = SideArtifact()
    if request.side_artifact is not None and request.round is not None:
        where = Path(request.side_artifact)
        side_artifact = open_side_artifact(
            where, key=key, fleet=request.fleet, classes=header.classes, latent=header.latent
        )
    samples = load_samples(Path(request.data))
    if samples.x.shape[1:] != header.input_shape or int(samples.y.max()) >= header.classes:
        shapes = f"samples of {samples.x.shape[1:]} in {int(samples.y.max()) + 1} classes"
        raise DataError(f"{request.data}: {shapes} for a model of {header.input_shape} in {header.classes}")
    train, held = split(samples, request.validation)
    return Assignment(
        request=request,
        header=header,
        published=published,
        side_artifact=side_artifact,
        train=train,
        held=held,
        folder=make_staging(request),
    )


def local_training(hyper: Hyper, fast: str = "auto", amp: str = "off") -> LocalTraining:
    """A job's hyper-parameters for the training loop; `fast` and `amp` are settings of the board."""
    return LocalTraining(
        lr=hyper.lr,
        batch_size=hyper.batch_size,
        epochs=hyper.epochs,
        steps=hyper.steps,
        momentum=hyper.momentum,
        weight_decay=hyper.weight_decay,
        prox=hyper.extra.get("prox", 0.0),
        clip=hyper.extra.get("clip", 0.0),
        least_steps=int(hyper.extra.get("least_steps", 0)),
        most_steps=int(hyper.extra.get("most_steps", 0)),
        fast=fast,
        amp=amp,
    )


def stopper(stop_at: float | None, tell: Tell) -> Callable[[], bool]:
    """Called before every step: reports progress to the agent, and stops the training at the deadline."""
    steps, reported = 0, 0.0

    def should_stop() -> bool:
        nonlocal steps, reported
        now = time.monotonic()
        if now - reported >= PROGRESS_S:
            tell("training", step=steps)
            reported = now
        steps += 1
        return stop_at is not None and now >= stop_at

    return should_stop
