"""The work of the training child: from a received model to an update in the outbox and a model for the board.

The same job on the same samples gives the same tensors to the last bit, whichever attempt makes them: all randomness
comes from the job's seed, the round and the device's name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edge_agent.data import split
from edge_agent.folders import move, remove
from edge_agent.hyper import LocalTraining
from edge_agent.request import Request
from edge_agent.store import CURRENT, EXTRACTOR, RESIDUAL, learned_path
from edge_agent.updates import make_update, start_state
from edge_agent.work import local_update
from models.build import build
from models.samples import Samples, load_samples
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.onnx_check import open_session, run_graph
from quant.onnx_export import export_onnx
from quant.pack import load_packed, pack
from wire.crashpoints import reach
from wire.envelope import open_envelope, seal
from wire.errors import DataError, ModelError
from wire.files import write_atomic
from wire.ids import AGGREGATOR, digest_of
from wire.keys import load_private_key, public_key_from_hex
from wire.messages import Hyper, ModelHeader, UpdateHeader
from wire.seeds import derive_seed
from wire.tensors import Tensor, decode, encode, to_safetensors
from wire.update import decode_model, encode_update

__all__ = ["Tell", "local_training", "run"]

#: Says how the work is going: a word, and facts.
Tell = Callable[..., None]
PROGRESS_S = 1.0


@dataclass(slots=True)
class _Task:
    request: Request
    header: ModelHeader
    published: bytes  # tensors
    model: Prototype
    train: Samples
    held: Samples | None
    folder: Path  # in staging/


def run(request: Request, tell: Tell) -> dict[str, float]:
    """Do the work and leave it, in one rename, where the agent finds it; the facts to report."""
    torch.set_num_threads(request.threads)
    tell("loading")
    task = _open(request)
    if request.round is None:
        load_packed(task.model, decode(task.published))
        facts = _make_current(task, pack(task.model, floats=request.floats), tell)
        _leave(task.folder, "ready")
        return facts
    facts, packed = _train(task, tell)
    reach("child-trained")
    try:
        facts |= _make_current(task, packed, tell)
    except ModelError as error:
        tell("warning", text=f"the board keeps its model: {error}")  # the update is worth sending all the same
    _spool(task, packed, facts)
    _leave(task.folder, "outbox")
    return facts


def _open(request: Request) -> _Task:
    """Check and unpack the model, build the prototype, read the samples."""
    sealed = Path(request.model).read_bytes()
    key = public_key_from_hex(request.aggregator)
    envelope = open_envelope(sealed, public_key=key, fleet=request.fleet, sender=AGGREGATOR, kinds=("model",))
    header, published = decode_model(envelope.payload)
    if header.prototype != request.prototype:
        raise ModelError(f"model {request.base[:12]}… is {header.prototype}, this device has {request.prototype}")
    arch, precision = parse_prototype(header.prototype)
    spec = PrototypeSpec(arch, precision, header.input_shape, header.classes, header.latent)
    model = build(spec, generator=torch.Generator().manual_seed(0))  # its weights are replaced at once
    samples = load_samples(Path(request.data))
    if samples.x.shape[1:] != header.input_shape or int(samples.y.max()) >= header.classes:
        shapes = f"samples of {samples.x.shape[1:]} in {int(samples.y.max()) + 1} classes"
        raise DataError(f"{request.data}: {shapes} for a model of {header.input_shape} in {header.classes}")
    train, held = split(samples, request.validation)
    folder = Path(request.state_dir) / "staging" / request.key
    remove(folder)
    folder.mkdir(parents=True)
    return _Task(request, header, published, model, train, held, folder)


def _train(task: _Task, tell: Tell) -> tuple[dict[str, float], dict[str, Tensor]]:
    request = task.request
    assert request.hyper is not None
    assert request.round is not None
    seed = derive_seed(request.hyper.seed, "train", request.round, request.device)
    root = Path(request.state_dir)
    started = time.monotonic()
    packed, trained = local_update(
        task.model,
        start_state(request.update, task.published, learned_path(root, request.prototype, EXTRACTOR)),
        torch.from_numpy(task.train.x),
        torch.from_numpy(task.train.y),
        local_training(request.hyper),
        floats=request.floats,
        generator=torch.Generator().manual_seed(seed),
        should_stop=_stopper(request.stop_at, tell),
    )
    facts = {"train_loss": trained.loss, "seconds": time.monotonic() - started, "steps": float(trained.steps)}
    return facts | ({"stopped_early": 1.0} if trained.stopped_early else {}), packed


def local_training(hyper: Hyper) -> LocalTraining:
    """A job's hyper-parameters as the training loop takes them."""
    return LocalTraining(
        lr=hyper.lr,
        batch_size=hyper.batch_size,
        epochs=hyper.epochs,
        steps=hyper.steps,
        momentum=hyper.momentum,
        weight_decay=hyper.weight_decay,
        prox=hyper.extra.get("prox", 0.0),
    )


def _stopper(stop_at: float | None, tell: Tell) -> Callable[[], bool]:
    """Asked before every step: shows the agent that the child lives, and ends the training in time."""
    steps, told = 0, 0.0

    def should_stop() -> bool:
        nonlocal steps, told
        now = time.monotonic()
        if now - told >= PROGRESS_S:
            tell("training", step=steps)
            told = now
        steps += 1
        return stop_at is not None and now >= stop_at

    return should_stop


def _make_current(task: _Task, packed: dict[str, Tensor], tell: Tell) -> dict[str, float]:
    """Put the model for the board into the folder, unless the one that is there is better on the held-out samples."""
    tell("exporting")
    graph = export_onnx(task.model, _example(task)).data
    facts: dict[str, float] = {}
    if task.held is not None:
        facts["accuracy"] = _accuracy(graph, task.held)
        before = Path(task.request.state_dir) / CURRENT[0]
        if before.exists():
            facts["accuracy_before"] = _accuracy(before.read_bytes(), task.held)
        if task.request.refuse_worse and facts["accuracy"] < facts.get("accuracy_before", 0.0):
            return facts | {"refused": 1.0}
    about: dict[str, Any] = {
        "prototype": task.request.prototype,
        "round": task.request.round if task.request.round is not None else task.header.round,
        "base": task.request.base,
        "trained_here": task.request.round is not None,
        "accuracy": facts.get("accuracy"),
    }
    files: tuple[bytes | str, ...] = (graph, to_safetensors(encode(packed)), json.dumps(about, indent=2) + "\n")
    for name, data in zip(CURRENT, files, strict=True):
        write_atomic(task.folder / name, data)
    return facts


def _accuracy(graph: bytes, held: Samples) -> float:
    """Of a graph on the held-out samples; 0 if it does not run on them, as one for other inputs would not."""
    try:
        session = open_session(graph)
        parts = [run_graph(session, held.x[i : i + 256]).argmax(1) for i in range(0, len(held), 256)]
    except ModelError:
        return 0.0
    return float(np.mean(np.concatenate(parts) == held.y))


def _spool(task: _Task, packed: dict[str, Tensor], facts: dict[str, float]) -> None:
    """Seal the update and put it into the folder, with what is to be kept on the device."""
    request = task.request
    assert request.round is not None
    made = make_update(
        request.update,
        task.model,
        packed,
        published=task.published,
        residual=learned_path(Path(request.state_dir), request.prototype, RESIDUAL),
        bits=request.bits,
        example=_example(task),
    )
    header = UpdateHeader(
        round=request.round,
        device=request.device,
        prototype=request.prototype,
        update=request.update,  # type: ignore[arg-type]  # one of the kinds: make_update has checked
        num_examples=len(task.train),
        label_counts=tuple(int(n) for n in np.bincount(task.train.y, minlength=task.header.classes)),
        base=request.base,
        metrics=facts,
    )
    key = load_private_key(request.private_key)
    payload = encode_update(header, made.body)
    sealed = seal(payload, key=key, kind="update", sender=request.device, fleet=request.fleet, round=request.round)
    for name, data in made.keep.items():
        write_atomic(task.folder / name, data)
    write_atomic(task.folder / "update", sealed)
    entry = {"round": request.round, "digest": digest_of(sealed), "size": len(sealed), "update": request.update}
    write_atomic(task.folder / "entry.json", json.dumps(entry))


def _example(task: _Task) -> torch.Tensor:
    """Two inputs for the exporter; a device with a single sample gives it twice."""
    return torch.from_numpy(task.train.x[[0, min(1, len(task.train) - 1)]])


def _leave(folder: Path, where: str) -> None:
    target = folder.parent.parent / where / folder.name
    if target.exists():  # an earlier child, whose agent was killed, got as far as this one
        remove(folder)
        return
    move(folder, target)
