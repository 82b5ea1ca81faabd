"""Parity of a graph with its model where values may lie on a step."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from core.errors import ModelError
from quant.binary import BinaryActivation
from quant.onnx.export import export_onnx
from quant.onnx.graph_check import dump_graph, parse_graph
from quant.onnx.parity import PARITY, check_parity
from tests.quant.onnx.graphs import model_of


class Step(nn.Module):
    """sign(x - offset), then a linear layer; the offset stands for a rounding error."""

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__()
        self.offset = offset
        self.act = BinaryActivation()
        self.fc = nn.Linear(3, 2)
        with torch.no_grad():
            self.fc.weight.copy_(torch.tensor([[1.0, 2, 4], [8, 16, 32]]))
            self.fc.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.fc(self.act(x - self.offset))
        return logits


def with_steps(model: nn.Module, x: torch.Tensor) -> bytes:
    """The exported graph with the levels of the activation as a second output, as the check wants it."""
    graph = parse_graph(export_onnx(model, x).data)
    (levels,) = [node.output[0] for node in graph.graph.node if node.op_type == "Where"]
    graph.graph.output.append(type(graph.graph.output[0])(name=levels, type=graph.graph.output[0].type))
    graph.graph.output[1].type.tensor_type.shape.dim[1].dim_value = 3
    return dump_graph(graph)


X = torch.tensor([[1.0, -1, 0], [2, 0, -2]])


def test_values_on_a_step_are_counted_and_the_graphs_side_is_taken():
    parity = check_parity(Step(offset=PARITY / 2), with_steps(Step(), X), X)
    assert parity.ties == 2  # the two zeros: 1 in the graph, -1 in the model
    assert parity.difference == 0


def test_without_ties_the_difference_is_the_plain_one():
    model = Step()
    graph = with_steps(model, X)
    with torch.no_grad():
        model.fc.bias.add_(PARITY / 4)
    parity = check_parity(model, graph, X)
    assert parity.ties == 0
    assert parity.difference == pytest.approx(PARITY / 4, rel=0.1)


def test_a_value_off_the_step_is_no_tie():
    with pytest.raises(ModelError, match="quantizes an activation differently"):
        check_parity(Step(offset=2 * PARITY), with_steps(Step(), X), X)


def test_other_weights_are_noticed_behind_the_ties():
    model = Step(offset=PARITY / 2)
    graph = with_steps(Step(), X)
    with torch.no_grad():
        model.fc.weight[0, 0] += 0.01
    with pytest.raises(ModelError, match=r"differs from the model by 0.01"):
        check_parity(model, graph, X)


def test_a_graph_without_the_models_steps_is_refused_and_so_is_one_with_more():
    with pytest.raises(ModelError, match="other quantized activations"):
        check_parity(Step(), export_onnx(Step(), X).data, X)
    with pytest.raises(ModelError, match="other quantized activations"):
        check_parity(Step().fc, with_steps(Step(), X), X)


def test_a_wrong_graph_of_a_float_model_is_refused():
    model = nn.Linear(3, 2)
    graph = export_onnx(model, X).data
    with torch.no_grad():
        model.weight[1, 2] += 1e-3
    with pytest.raises(ModelError, match=r"differs from the model by 0.00"):
        check_parity(model, graph, X)


def test_hooks_and_modes_are_put_back_even_after_a_refusal():
    model = Step(offset=1.0).train()
    with pytest.raises(ModelError):
        check_parity(model, with_steps(Step(), X), X)
    assert model.training
    assert not model.act._forward_hooks


def test_not_a_number_is_never_equal():
    node = onnx.helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    weight = onnx.numpy_helper.from_array(np.full((2, 3), np.nan, np.float32), "w")
    with pytest.raises(ModelError, match="differs from the model by inf"):
        check_parity(nn.Linear(3, 2), model_of([node], [weight]).SerializeToString(), X)
