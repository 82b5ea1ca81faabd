"""The inputs of a training child, opened and checked: model, side artifact, samples. Imports no torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError, ModelError
from edge_agent.child.outbox import make_staging
from edge_agent.child.request import Request
from edge_agent.objectives.side_artifact import SideArtifact, open_side_artifact
from edge_agent.samples.read import read_samples
from edge_agent.samples.task_file import task_of, write_task
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import num_steps
from models.samples import Samples
from models.spec import PrototypeSpec, parse_prototype
from wire.envelope import open_envelope
from wire.headers import decode_model
from wire.ids import AGGREGATOR
from wire.keys import public_key_from_hex
from wire.messages import Hyper, ModelHeader

__all__ = ["Assignment", "Tell", "local_training", "open_assignment", "steps_of", "stopper"]

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
    def example(self) -> NDArray[Any]:
        """Two inputs for an exporter; a single sample is repeated, and zeros stand for none."""
        if not len(self.train):
            return np.zeros((2, *self.header.input_shape), self.train.x.dtype)
        found: NDArray[Any] = self.train.x[[0, min(1, len(self.train) - 1)]]
        return found

    @property
    def label_counts(self) -> tuple[int, ...]:
        """Label counts of the training samples."""
        return tuple(int(n) for n in np.bincount(self.train.y, minlength=self.header.classes))


def open_assignment(request: Request, tell: Tell = lambda *_, **__: None) -> Assignment:
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
    train, held = _samples(request, header, tell)
    return Assignment(
        request=request,
        header=header,
        published=published,
        side_artifact=side_artifact,
        train=train,
        held=held,
        folder=make_staging(request),
    )


def _samples(request: Request, header: ModelHeader, tell: Tell) -> tuple[Samples, Samples | None]:
    """The board's samples for this model; a job needs enough of them, an offered model is taken without any."""
    known, state_dir = task_of(header), Path(request.state_dir)
    write_task(state_dir, known)
    ids = header.prototype.startswith(("text", "distilbert"))
    nothing = Samples(np.empty((0, *header.input_shape), np.int64 if ids else np.float32), np.empty(0, np.int64))
    try:
        board = read_samples(request.samples, state_dir, known, lambda text: tell("warning", text=text))
    except DataError as error:
        if request.round is not None:
            raise
        tell("warning", text=f"the model is taken, but not judged: {error}")
        return nothing, None
    if request.round is not None and board.survey.waiting:
        raise DataError(board.survey.waiting)
    return (board.train if len(board.train) else nothing), board.held


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


def steps_of(work: Assignment) -> int:
    """The number of steps that the job asks for with the samples of this board."""
    assert work.request.hyper is not None
    how = local_training(work.request.hyper)
    return num_steps(-(-len(work.train) // how.batch_size), how)


def stopper(stop_at: float | None, tell: Tell, total: int = 0) -> Callable[[], bool]:
    """Called before every step: reports progress to the agent, and stops the training at the deadline."""
    steps, reported = 0, 0.0

    def should_stop() -> bool:
        nonlocal steps, reported
        now = time.monotonic()
        if now - reported >= PROGRESS_S:
            tell("training", step=steps, total=total)
            reported = now
        steps += 1
        return stop_at is not None and now >= stop_at

    return should_stop
