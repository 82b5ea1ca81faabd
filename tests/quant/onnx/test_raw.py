"""Raw values in, probabilities out: the same for every precision, and undone without a trace."""

import numpy as np
import pytest
import torch

from core.errors import ModelError
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.onnx.raw import is_raw, plain_graph, raw_graph
from quant.onnx.session import open_session, run_graph
from quant.onnx.split import extractor_graph
from quant.onnx.weights import convert_low_bits, patch_weights, read_weights
from quant.pack import pack

SHAPE = (3, 12, 12)
MEAN, STD = (120.0, 121.5, 122.0), (50.0, 51.0, 52.25)
BYTES = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), dtype=np.uint8)
COLUMN = (-1, 1, 1)
# as models/samples.py normalizes
FLOATS = (BYTES.astype(np.float32) - np.float32(MEAN).reshape(COLUMN)) * (
    np.float32(1) / np.float32(STD).reshape(COLUMN)
)


def prototype(name: str, seed: int = 0, shape: tuple[int, ...] = SHAPE) -> torch.nn.Module:
    spec = PrototypeSpec(*parse_prototype(name), shape, 4, 16)
    return build(spec, generator=torch.Generator().manual_seed(seed)).eval()


def exported(name: str) -> bytes:
    return export_onnx(prototype(name), torch.from_numpy(FLOATS)).data


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


@pytest.mark.parametrize("name", ["cnn:fp32", "cnn:w8a8", "cnn:w4a4", "cnn:w2a2", "cnn:w1", "cnn:w1a1"])
def test_bytes_give_the_probabilities_of_the_plain_graph(name: str) -> None:
    plain = exported(name)
    raw = raw_graph(plain, MEAN, STD)
    assert is_raw(raw)
    assert not is_raw(plain)
    session = open_session(raw)
    assert (session.get_inputs()[0].type, session.get_inputs()[0].shape) == ("tensor(uint8)", ["batch", *SHAPE])
    assert [output.name for output in session.get_outputs()] == ["probabilities"]
    answer = run_graph(session, BYTES)
    assert np.abs(answer - softmax(run_graph(open_session(plain), FLOATS))).max() < 1e-6
    assert plain_graph(raw) == plain
    assert plain_graph(plain) == plain
    assert raw_graph(raw, MEAN, STD) == raw  # not twice


def test_weights_of_a_raw_graph_are_read_patched_and_converted_like_those_of_a_plain_one() -> None:
    plain = exported("cnn:w1")
    raw = raw_graph(plain, MEAN, STD)
    assert read_weights(raw).keys() == read_weights(plain).keys()
    other = pack(prototype("cnn:w1", seed=5), floats="fp32")
    assert patch_weights(raw, other) == raw_graph(patch_weights(plain, other), MEAN, STD)
    assert convert_low_bits(raw, "int8") == raw_graph(convert_low_bits(plain, "int8"), MEAN, STD)
    assert extractor_graph(raw) == extractor_graph(plain)


def test_readings_stay_floats() -> None:
    model = prototype("mlp:fp32", shape=(2, 6))
    x = torch.from_numpy(np.random.default_rng(1).normal(5, 2, (3, 2, 6)).astype(np.float32))
    raw = raw_graph(export_onnx(model, (x - 5) / 2).data, (5.0,), (2.0,), dtype="float32")
    assert np.abs(run_graph(open_session(raw), x.numpy()) - softmax(model((x - 5) / 2).detach().numpy())).max() < 1e-6


def test_token_ids_and_other_graphs_are_refused() -> None:
    model = prototype("text:fp32", shape=(8,))
    graph = export_onnx(model, torch.zeros(2, 8, dtype=torch.int64)).data
    with pytest.raises(ModelError, match="token ids"):
        raw_graph(graph, (0.0,), (255.0,))
    with pytest.raises(ModelError, match="export the model with edgestill"):
        raw_graph(extractor_graph(exported("cnn:fp32")), MEAN, STD)
    with pytest.raises(ModelError, match="finite numbers"):
        raw_graph(exported("mlp:fp32"), (0.0,), (0.0,))
