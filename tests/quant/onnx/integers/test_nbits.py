"""Linear layers as MatMulNBits: equal answers up to the rounding of x to 8 bits; never another accuracy level."""

import numpy as np
import onnx
import pytest
import torch

from core.errors import ModelError
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.onnx.integers.nbits import BLOCK, to_nbits
from quant.onnx.raw import raw_graph
from quant.onnx.session import open_session, run_graph

X = torch.randn(16, 1, 12, 12, generator=torch.Generator().manual_seed(1))


def exported(name: str) -> bytes:
    spec = PrototypeSpec(*parse_prototype(name), (1, 12, 12), 5, 72)  # 72 levels: a block and a bit
    return export_onnx(build(spec, generator=torch.Generator().manual_seed(0)).eval(), X).data


@pytest.mark.parametrize("low_bits", [2, 4])
@pytest.mark.parametrize("name", ["mlp:w1", "cnn:w1", "cnn:w1a1", "mlp:w2a2", "mlp:w4a4"])
def test_answers_are_those_of_the_plain_graph_up_to_rounding(name: str, low_bits: int) -> None:
    plain = exported(name)
    made = to_nbits(plain, low_bits=low_bits)
    assert "predictor.weight" in made.weights
    before, after = (run_graph(open_session(graph), X.numpy()) for graph in (plain, made.data))
    # the median: a value that falls on the other side of an activation's step changes its sample by any amount
    assert np.median(np.abs(after - before)) < 0.02 * np.abs(before).max()


def test_only_accuracy_level_4_is_written_and_levels_take_their_bits() -> None:
    model = onnx.ModelProto.FromString(to_nbits(exported("mlp:w1"), low_bits=2).data)
    nodes = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    for node in nodes:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        assert (given["bits"], given["accuracy_level"], given["block_size"]) == (2, 4, BLOCK)
    (levels,) = [t for t in model.graph.initializer if t.name == "predictor.weight:n2"]
    assert list(levels.dims) == [5, 2, BLOCK // 4]
    assert not [t.name for t in model.graph.initializer if ":q1" in t.name]


def test_a_raw_graph_is_converted_too() -> None:
    raw = raw_graph(exported("cnn:w1"), (128.0,), (64.0,))
    x = np.random.default_rng(0).integers(0, 256, (8, 1, 12, 12), dtype=np.uint8)
    before, after = (run_graph(open_session(graph), x) for graph in (raw, to_nbits(raw).data))
    assert np.abs(after - before).max() < 0.02


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(ModelError, match="no linear layer with 1-, 2- or 4-bit weights"):
        to_nbits(exported("mlp:fp32"))
