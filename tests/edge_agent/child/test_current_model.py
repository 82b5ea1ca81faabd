"""The model for the application: three files that belong together, or none where the board's own is better."""

import json
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
import safetensors.numpy

from core.errors import ModelError
from edge_agent.child.current_model import write_current
from edge_agent.child.inputs import Assignment, open_assignment
from edge_agent.predict.model import Model
from edge_agent.state.store import CURRENT
from models.card import ModelCard
from quant.onnx.metadata import read_metadata
from quant.onnx.raw import is_raw, plain_graph, raw_graph
from quant.onnx.session import open_session, run_graph
from quant.onnx.weights import compact_weights
from tests.edge_agent.devices import Device
from tests.edge_agent.predict.boards import tiny_graph
from wire.ids import digest_of
from wire.tensors import Packed

GRAPH = tiny_graph(shape=(1, 4, 4))
TENSORS = {"predictor.bias": np.array([1.0, 2.0], np.float32)}


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def assignment(device: Device, *, job: bool = True, **other: object) -> Assignment:
    return open_assignment(device.request(device.job(3) if job else None, **other))


def test_graph_tensors_and_a_word_about_them_are_written(device: Device) -> None:
    work = assignment(device)
    assert write_current(work, GRAPH, TENSORS, {"accuracy": 0.75, "train_loss": 0.1}) == {}
    graph, tensors, about = (work.folder / name for name in CURRENT)
    assert safetensors.numpy.load_file(tensors)["predictor.bias"].tolist() == [1.0, 2.0]
    card = ModelCard.from_json(about.read_bytes(), "")
    assert card is not None
    assert (card.prototype, card.precision, card.round, card.base) == ("mlp:fp32", "fp32", 3, device.digest)
    assert (card.trained_here, card.accuracy, card.output, card.latent) == (True, 0.75, "logits", 8)
    assert (card.classes, card.class_names, card.fleet, card.device) == (3, (), "f", "pi-1")
    assert (card.input.dtype, card.input.layout, card.input.shape) == ("float32", "NCHW", (1, 4, 4))
    assert card.edgestill
    assert (card.file, card.sha256) == (CURRENT[0], digest_of(graph.read_bytes()))
    assert ModelCard.from_metadata(read_metadata(graph.read_bytes()), "") == msgspec.structs.replace(
        card, file=None, sha256=None
    )


def store_bytes(device: Device, **arrays: object) -> None:
    y = np.arange(24) % 3
    x = (np.arange(24 * 16).reshape(24, 1, 4, 4) % 250).astype(np.uint8)
    np.savez(device.folder / "samples.npz", x=x, y=y, **arrays)


@pytest.mark.parametrize("before", [GRAPH, raw_graph(GRAPH, (0.0,), (1.0,))])
def test_a_raw_model_normalizes_as_the_samples_are(device: Device, before: bytes) -> None:
    store_bytes(device, mean=np.float32(100), std=np.float32([50]))
    work = assignment(device, raw_input=True)
    write_current(work, before, TENSORS, {})
    graph, _, about = (work.folder / name for name in CURRENT)
    given = ModelCard.from_json(about.read_bytes(), "").input
    assert (given.dtype, given.mean, given.std, given.inside) == ("uint8", (100.0,), (50.0,), True)
    assert is_raw(graph.read_bytes())
    model = Model(graph)
    image = np.full((1, 4, 4), 200, np.uint8)
    assert model.predict(image).probabilities == pytest.approx(
        softmax(run_graph(open_session(GRAPH), normalized(image)))
    )


def normalized(image: np.ndarray) -> np.ndarray:
    return ((image[None].astype(np.float32) - 100) / 50).astype(np.float32)


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum()


def test_a_template_that_is_raw_becomes_plain_where_that_is_set(device: Device) -> None:
    work = assignment(device)
    write_current(work, raw_graph(GRAPH, (0.0,), (1.0,)), TENSORS, {})
    graph = (work.folder / CURRENT[0]).read_bytes()
    assert not is_raw(graph)
    assert plain_graph(graph) == graph


def test_levels_are_stored_for_the_runtime_of_the_application(device: Device) -> None:
    levels = Packed(bits=1, levels=np.ones((1, 16), np.int8), scale=np.array(0.5, np.float16), mean=None)
    graph = compact_weights(GRAPH, {"predictor.weight": levels}, low_bits="int2")
    for runtime, opset in (("1.15", 18), ("1.21", 21), ("1.31", 25)):
        work = assignment(device, runtime=runtime)
        write_current(work, graph, TENSORS, {})
        written = onnx.load(work.folder / CURRENT[0])
        assert written.opset_import[0].version == opset


def test_samples_that_are_used_as_stored_have_no_raw_form(device: Device) -> None:
    with pytest.raises(ModelError, match="no normalization to put into the graph"):
        write_current(assignment(device, raw_input=True), GRAPH, TENSORS, {})


def test_a_model_that_was_only_taken_has_the_round_of_its_header(device: Device) -> None:
    work = assignment(device, job=False)
    write_current(work, GRAPH, TENSORS, {})
    about = json.loads((work.folder / CURRENT[2]).read_text())
    assert (about["round"], about["trained_here"], about["accuracy"]) == (0, False, None)


@pytest.mark.parametrize(
    ("refuse_worse", "accuracy", "before", "refused"),
    [(True, 0.4, 0.5, True), (True, 0.5, 0.5, False), (True, 0.6, 0.5, False), (False, 0.4, 0.5, False)],
)
def test_a_worse_model_is_refused_where_that_is_asked_for(
    device: Device, refuse_worse: bool, accuracy: float, before: float, refused: bool
) -> None:
    work = assignment(device, refuse_worse=refuse_worse)
    answer = write_current(work, GRAPH, TENSORS, {"accuracy": accuracy, "accuracy_before": before})
    assert answer == ({"refused": 1.0} if refused else {})
    assert (work.folder / CURRENT[0]).exists() is not refused
