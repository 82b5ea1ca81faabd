"""The work of a light training child: the predictor trained in NumPy under a fixed extractor. Imports no torch.

The extractor is the fleet's newest or that of the kit (`edge_agent/light/graph.py`), a graph of the whole prototype; it
is cut before the predictor once per round. The result is a predictor update.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from core.crashpoints import reach
from core.errors import ConfigError, ModelError
from core.files import write_atomic
from core.seeds import derive_seed
from edge_agent.child.current_model import write_current
from edge_agent.child.inputs import Assignment, Tell, local_training, open_assignment, steps_of, stopper
from edge_agent.child.outbox import leave, spool
from edge_agent.child.request import Request
from edge_agent.light.extractor import latents_of
from edge_agent.light.graph import Graphs, Source
from edge_agent.light.predictor import LightPredictor
from edge_agent.light.train import GeneratedTerm, light_batches, train_predictor
from edge_agent.objectives.fedgen_weights import Guidance
from edge_agent.state.folders import set_aside
from edge_agent.state.store import CURRENT, GRAPH, PERSONAL, learned_path
from models.roles import EXTRACTOR_ROUND
from models.samples import Samples
from quant.onnx.raw import plain_graph
from quant.onnx.split import extractor_graph
from quant.onnx.weights import patch_weights, read_weights
from wire.tensors import decode, encode

__all__ = ["run"]


def run(request: Request, tell: Tell) -> dict[str, float]:
    """The counterpart of `edge_agent/child/full.py` without torch."""
    tell("loading")
    if request.update == "none":
        raise ConfigError("the job shares no model, and a light agent keeps none; set another recipe in fleet.toml")
    if request.hyper is not None and PERSONAL in request.hyper.extra:
        tell("warning", text="personal models need edgestill[train]; this board runs the predictor that it shares")
    work = open_assignment(request, tell)
    predictor = LightPredictor.from_tensors(decode(work.published), work.spec.precision)
    before = _accuracy_before(work)
    work, whole, source = _under_an_extractor(work, tell)
    if source == "fleet":
        write_atomic(work.folder / GRAPH, whole)
    if request.round is None:
        metrics = _make_current(work, whole, predictor, before, tell)
        leave(work.folder, "ready")
        return metrics
    metrics = _train(work, predictor, tell)
    if source != "fleet" and _fleet_trained(work):
        metrics["other_extractor"] = 1.0  # than that of the published model
    reach("child-trained")
    packed = predictor.pack(request.floats)
    try:
        metrics |= _make_current(work, whole, predictor, before, tell)
    except ModelError as error:
        tell("warning", text=f"the board keeps its model: {error}")
    spool(
        request,
        work.folder,
        kind="predictor",
        body=encode(packed),
        keep={},
        label_counts=work.label_counts,
        metrics=metrics,
    )
    leave(work.folder, "outbox")
    return metrics


def _fleet_trained(work: Assignment) -> bool:
    return work.header.metrics.get(EXTRACTOR_ROUND, 0) > 0


def _under_an_extractor(work: Assignment, tell: Tell) -> tuple[Assignment, bytes, Source]:
    """The work with latents in place of its samples, the graph that gave them, and where that is from."""
    request, root = work.request, Path(work.request.state_dir)
    assert request.graph is not None
    kept = learned_path(root, request.prototype, GRAPH)
    graphs = Graphs(
        kit=Path(request.graph),
        kept=kept,
        refresh=request.refresh,
        is_job=request.round is not None,
        fleet_trained=_fleet_trained(work),
    )
    for source in graphs.sources():
        try:
            whole = graphs.read(source, decode(work.published), work.spec.precision)
            return _with_latents(work, extractor_graph(whole)), whole, source
        except ModelError as error:
            if source == "kit":
                raise
            if source == "kept":
                set_aside(root, kept, str(error))
            what = "the fleet's extractor" if source == "fleet" else str(kept)
            tell("warning", text=f"{what} is not used: {error}; this board keeps the extractor that it has")
    raise AssertionError("the kit's graph is the last source")


def _with_latents(work: Assignment, extractor: bytes) -> Assignment:
    """Replace samples by their latents; the inputs, which take the most memory, are freed."""

    def answered(samples: Samples) -> Samples:
        if not len(samples):  # of a board that waits for some
            return Samples(np.empty((0, work.header.latent), np.float32), samples.y)
        return Samples(latents_of(extractor, samples.x, work.header.latent), samples.y)

    return replace(work, train=answered(work.train), held=None if work.held is None else answered(work.held))


def _train(work: Assignment, predictor: LightPredictor, tell: Tell) -> dict[str, float]:
    request = work.request
    assert request.hyper is not None
    assert request.round is not None
    seed, who = request.hyper.seed, (request.round, request.device)
    started = time.monotonic()
    z = work.train.x
    how = local_training(request.hyper)
    order = np.random.default_rng(derive_seed(seed, "train", *who))
    generated = None
    if work.side_artifact.latents is not None:
        generated = GeneratedTerm(
            work.side_artifact.latents,
            Guidance.from_extra(request.hyper.extra),
            request.round,
            rng=np.random.default_rng(derive_seed(seed, "generated", *who)),
        )
    trained = train_predictor(
        predictor,
        z,
        work.train.y,
        how,
        epoch=lambda: light_batches(len(z), how.batch_size, order),
        generated=generated,
        should_stop=stopper(request.stop_at, tell, steps_of(work)),
    )
    metrics = {"train_loss": trained.loss, "seconds": time.monotonic() - started, "steps": float(trained.steps)}
    return metrics | ({"stopped_early": 1.0} if trained.stopped_early else {})


def _make_current(
    work: Assignment, whole: bytes, predictor: LightPredictor, before: dict[str, float], tell: Tell
) -> dict[str, float]:
    """The graph with the predictor's weights in place of its own, unless the board's model is better."""
    tell("exporting")
    graph = patch_weights(whole, predictor.pack(work.request.floats), partial=True, quantize=True)
    metrics = dict(before)
    if work.held is not None:
        metrics["accuracy"] = float(np.mean(predictor.logits(work.held.x).argmax(1) == work.held.y))
    return metrics | write_current(work, graph, read_weights(graph), metrics)


def _accuracy_before(work: Assignment) -> dict[str, float]:
    """Accuracy of the board's model on the held-out samples, if both exist; 0 if it does not run on them."""
    graph = Path(work.request.state_dir) / CURRENT[0]
    if work.held is None or not graph.exists():
        return {}
    try:
        logits = latents_of(plain_graph(graph.read_bytes()), work.held.x, work.header.classes)
    except ModelError:
        return {"accuracy_before": 0.0}
    return {"accuracy_before": float(np.mean(logits.argmax(1) == work.held.y))}
