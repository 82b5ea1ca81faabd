"""The work of the training child: from a received model to an update in the outbox and a model for the board.

The same job on the same samples gives bit-identical tensors in every attempt: all randomness comes from the job's seed,
the round and the device's name.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from core.crashpoints import reach
from core.errors import ModelError
from core.seeds import derive_seed
from edge_agent.child.current_model import write_current
from edge_agent.child.inputs import Assignment, Tell, local_training, open_assignment, steps_of, stopper
from edge_agent.child.outbox import leave, spool
from edge_agent.child.request import Request
from edge_agent.child.update_kinds import Made, check_kept, make_update, read_kept, start_state
from edge_agent.objectives.feddistill import LabelLogits
from edge_agent.objectives.personal import Personal, load_personal, train_personal
from edge_agent.objectives.select import counts_logits, make_objective
from edge_agent.state.store import CURRENT, EXTRACTOR, LABEL_LOGITS, PERSONAL, RESIDUAL, learned_path
from edge_agent.training.local_round import local_update
from models.build import build
from models.compute_device import describe, find_device, repeatable_on
from models.samples import Samples
from models.split import Prototype
from quant.onnx.export import export_onnx
from quant.onnx.raw import plain_graph
from quant.onnx.session import open_session, run_graph
from quant.pack import load_packed, pack, pack_state, unpack
from wire.tensors import Tensor, decode, encode

__all__ = ["Tell", "local_training", "run"]


def run(request: Request, tell: Tell) -> dict[str, float]:
    """Do the work and commit it for the agent with one rename; returns the metrics to report."""
    torch.set_num_threads(request.threads)
    tell("loading")
    work = open_assignment(request, tell)
    check_kept(Path(request.state_dir), request.prototype, tell)
    model = build(work.spec, generator=torch.Generator().manual_seed(0))  # its weights are replaced below
    if request.round is None:
        own = learned_path(Path(request.state_dir), request.prototype, EXTRACTOR)
        if not load_personal(model, _personal(request)):
            load_packed(model, decode(start_state("logits", work.published, own)))  # under all that it keeps
        metrics = _make_current(work, model, pack(model, floats=request.floats), tell)
        leave(work.folder, "ready")
        return metrics
    device = find_device(request.compute)
    repeatable_on(device)
    tell("computing", device=describe(device, request.compute))
    seen = _label_logits(request, work.header.classes)
    metrics, packed = _train(work, model, seen, tell, device)
    reach("child-trained")
    made = _make_update(work, model, packed, seen)
    assert request.hyper is not None
    asked = Personal.from_extra(request.hyper.extra)
    if asked is not None:
        packed, kept = _train_personal(work, model, asked, tell, device)
        made = replace(made, keep={**made.keep, PERSONAL: encode(kept)})
    try:
        metrics |= _make_current(work, model, packed, tell)
    except ModelError as error:
        tell("warning", text=f"the board keeps its model: {error}")  # the update is sent anyway
    spool(
        request,
        work.folder,
        kind=request.update,
        body=made.body,
        keep=made.keep,
        label_counts=work.label_counts,
        metrics=metrics,
    )
    leave(work.folder, "outbox")
    return metrics


def _label_logits(request: Request, classes: int) -> LabelLogits | None:
    """The logits counted by the device in earlier rounds, if the job requests them."""
    assert request.hyper is not None
    if not counts_logits(request.hyper.extra):
        return None
    kept = read_kept(learned_path(Path(request.state_dir), request.prototype, LABEL_LOGITS))
    return LabelLogits.from_state(unpack(kept or {}), classes)


def _train(
    work: Assignment, model: Prototype, seen: LabelLogits | None, tell: Tell, device: torch.device
) -> tuple[dict[str, float], dict[str, Tensor]]:
    request = work.request
    assert request.hyper is not None
    assert request.round is not None
    seed = derive_seed(request.hyper.seed, "train", request.round, request.device)
    own = learned_path(Path(request.state_dir), request.prototype, EXTRACTOR)
    started = time.monotonic()
    packed, trained = local_update(
        model,
        start_state(request.update, work.published, own),
        torch.from_numpy(work.train.x),
        torch.from_numpy(work.train.y),
        local_training(request.hyper, request.fast, request.amp),
        floats=request.floats,
        generator=torch.Generator().manual_seed(seed),
        device=device,
        objective=make_objective(
            work.side_artifact,
            request.hyper.extra,
            seed=request.hyper.seed,
            number=request.round,
            device=request.device,
            seen=seen,
            compute_device=device,
        ),
        should_stop=stopper(request.stop_at, tell, steps_of(work)),
    )
    metrics = {"train_loss": trained.loss, "seconds": time.monotonic() - started, "steps": float(trained.steps)}
    return metrics | ({"stopped_early": 1.0} if trained.stopped_early else {}), packed


def _make_current(work: Assignment, model: Prototype, packed: dict[str, Tensor], tell: Tell) -> dict[str, float]:
    """Write the model for the board into the folder, unless the current one is better on the held-out samples."""
    tell("exporting")
    graph = export_onnx(model, _example(work)).data
    metrics: dict[str, float] = {}
    if work.held is not None:
        metrics["accuracy"] = _accuracy(graph, work.held)
        before = Path(work.request.state_dir) / CURRENT[0]
        if before.exists():
            metrics["accuracy_before"] = _accuracy(before.read_bytes(), work.held)
    return metrics | write_current(work, graph, packed, metrics)


def _accuracy(graph: bytes, held: Samples) -> float:
    """Accuracy of a graph on the held-out samples; 0 if it does not run on them, such as a graph for other inputs."""
    try:
        session = open_session(plain_graph(graph))
        parts = [run_graph(session, held.x[i : i + 256]).argmax(1) for i in range(0, len(held), 256)]
        return float(np.mean(np.concatenate(parts) == held.y))
    except (ModelError, ValueError, IndexError):
        return 0.0


def _make_update(work: Assignment, model: Prototype, packed: dict[str, Tensor], seen: LabelLogits | None) -> Made:
    request = work.request
    made = make_update(
        request.update,
        model,
        packed,
        published=work.published,
        residual=learned_path(Path(request.state_dir), request.prototype, RESIDUAL),
        bits=request.bits,
        example=_example(work),
        extra={} if seen is None else pack_state({LABEL_LOGITS: seen.means()}, floats=request.floats),
    )
    counted = {} if seen is None else {LABEL_LOGITS: encode(pack_state(seen.state()))}
    return replace(made, keep={**made.keep, **counted})


def _personal(request: Request) -> dict[str, Tensor] | None:
    return read_kept(learned_path(Path(request.state_dir), request.prototype, PERSONAL))


def _train_personal(
    work: Assignment, model: Prototype, asked: Personal, tell: Tell, device: torch.device
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The personal model for the board, and its stored form; `model` has the update, afterwards the personal model."""
    request = work.request
    assert request.hyper is not None
    seed = derive_seed(request.hyper.seed, "personal", request.round, request.device)
    return train_personal(
        model,
        _personal(request),
        decode(work.published),
        {name: w.clone() for name, w in model.state_dict().items()},
        torch.from_numpy(work.train.x),
        torch.from_numpy(work.train.y),
        local_training(request.hyper, request.fast, request.amp),
        asked=asked,
        device=device,
        floats=request.floats,
        generator=torch.Generator().manual_seed(seed),
        should_stop=stopper(request.stop_at, tell, steps_of(work)),
    )


def _example(work: Assignment) -> torch.Tensor:
    """Two inputs for the exporter."""
    return torch.from_numpy(work.example)
