"""A model's graph, cut in front of the predictor."""

import numpy as np
import onnx
import pytest
import torch

from core.errors import ModelError
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.onnx.session import open_session, run_graph
from quant.onnx.split import extractor_graph
from quant.onnx.weights import read_weights


@pytest.mark.parametrize("prototype", ["cnn:fp32", "cnn:w1", "mlp:w8a8"])
def test_the_cut_graph_gives_the_latent(prototype: str) -> None:
    spec = PrototypeSpec(*parse_prototype(prototype), (1, 8, 8), 3, 5)
    model = build(spec, generator=torch.Generator().manual_seed(0)).eval()
    x = model.example_input(4, generator=torch.Generator().manual_seed(1))
    whole = export_onnx(model, x).data
    cut = extractor_graph(whole)
    onnx.checker.check_model(onnx.load_from_string(cut))
    with torch.no_grad():
        expected = model.extractor(x).numpy()
    found = run_graph(open_session(cut), x.numpy())
    assert found.shape == (4, 5)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert len(cut) < len(whole)
    assert not [name for name in read_weights(cut) if name.startswith("predictor")]


def test_a_graph_without_a_predictor_is_refused() -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [1])],
        [onnx.helper.make_tensor_value_info("y", 1, [1])],
    )
    with pytest.raises(ModelError, match=r"predictor\.weight"):
        extractor_graph(onnx.helper.make_model(graph).SerializeToString())
