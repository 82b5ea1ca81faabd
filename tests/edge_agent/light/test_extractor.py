"""The frozen extractor through ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ModelError
from edge_agent.light.extractor import latents_of
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.onnx.split import extractor_graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = build(PrototypeSpec(*parse_prototype("mlp"), (6,), 3, 5), generator=torch.Generator().manual_seed(0))
    path = tmp_path_factory.mktemp("graph") / "extractor.onnx"
    path.write_bytes(extractor_graph(export_onnx(model.eval(), torch.zeros(2, 6)).data))
    return path


def test_every_sample_has_its_latent_in_its_place(graph: Path) -> None:
    x = np.random.default_rng(0).normal(size=(130, 6))  # three batches, the last one small, and of float64
    z = latents_of(graph, x, 5)
    assert z.shape == (130, 5)
    assert z.dtype == np.float32
    np.testing.assert_allclose(z[129:], latents_of(graph, x[129:], 5), rtol=1e-5, atol=1e-6)


def test_another_latent_width_is_refused(graph: Path) -> None:
    with pytest.raises(ModelError, match="the fleet's latent is 7"):
        latents_of(graph, np.zeros((2, 6), np.float32), 7)
