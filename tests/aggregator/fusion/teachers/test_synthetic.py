"""Noise and what generators make of it: samples for teachers that nobody collected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from aggregator.fusion.teachers.synthetic import from_module, gaussian_noise, uniform_noise
from aggregator.fusion.teachers.unlabeled import load_source
from core.errors import ConfigError, DataError


def test_uniform_noise_fills_the_range() -> None:
    x = load_source("noise", (1, 4, 4), size=500)
    assert x.shape == (500, 1, 4, 4)
    assert x.dtype == torch.float32
    assert -1 <= x.min() < -0.99
    assert 0.99 < x.max() < 1
    assert x.std().item() == pytest.approx(1 / 3**0.5, rel=0.02)


def test_gaussian_noise_touches_both_ends_in_every_batch() -> None:
    x = load_source("noise:gaussian", (2, 3), size=300)
    for batch in x.split(128):
        assert batch.min().item() == pytest.approx(-1, abs=1e-6)
        assert batch.max().item() == pytest.approx(1, abs=1e-6)
    assert x.std() < 0.4, "most of a Gaussian is far from its ends"


def test_noise_of_token_ids_covers_the_vocabulary_but_padding() -> None:
    ids = load_source("noise", (5,), tokens=4, size=100)
    assert ids.dtype == torch.int64
    assert ids.unique().tolist() == [1, 2, 3]
    with pytest.raises(ConfigError, match="token ids have no Gaussian"):
        load_source("noise:gaussian", (5,), tokens=4)


WEIGHT = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], np.float32)  # noise (2) -> x (3)


def graph(folder: Path, batch: int | str = "N", *, noise: list[int | str] | None = None, op: str = "Gemm") -> str:
    """A generator x = W noise, its input called `latent`."""
    shape = [batch, *(noise or [2])]
    node = helper.make_node("Gemm", ["latent", "w"], ["x"], transB=1)
    if op != "Gemm":
        node = helper.make_node(op, ["latent"], ["x"])
    made = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("latent", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])],
        [numpy_helper.from_array(WEIGHT, "w")] if op == "Gemm" else [],
    )
    path = folder / "generator.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return str(path)


def test_an_onnx_generator_makes_its_samples_from_normal_noise(tmp_path: Path) -> None:
    x = load_source(graph(tmp_path), (3,), size=300)
    assert x.shape == (300, 3)
    assert torch.allclose(x[:, 2], x[:, 0] + x[:, 1] / 2, atol=1e-6)
    assert x[:, 0].std().item() == pytest.approx(1, abs=0.15)
    assert x[:, 1].std().item() == pytest.approx(2, abs=0.3)
    assert torch.equal(x, load_source(graph(tmp_path), (3,), size=300))
    assert not torch.equal(x, load_source(graph(tmp_path), (3,), size=300, seed=1))


def test_a_graph_of_a_fixed_batch_is_run_in_batches_of_that_size(tmp_path: Path) -> None:
    x = load_source(graph(tmp_path, batch=4), (3,), size=10)
    assert x.shape == (10, 3)
    assert len(x.unique(dim=0)) == 10


@pytest.mark.parametrize(
    ("how", "shape", "says"),
    [
        ({}, (4,), "its samples are 3, the task's 4"),
        ({"noise": ["width"]}, (3,), "fix all sizes but the first"),
        ({"op": "RandomNormalLike"}, (2,), "RandomNormalLike"),
    ],
)
def test_a_graph_that_is_no_generator_for_the_task_is_refused(
    tmp_path: Path, how: dict, shape: tuple[int, ...], says: str
) -> None:
    with pytest.raises(DataError, match=says) as caught:
        load_source(graph(tmp_path, **how), shape, size=2)
    assert "generator.onnx" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_graph_are_refused(tmp_path: Path) -> None:
    (tmp_path / "g.onnx").write_bytes(b"not a graph")
    with pytest.raises(DataError, match=r"g\.onnx: .*not an ONNX file"):
        load_source(str(tmp_path / "g.onnx"), (3,))


class Generator(nn.Module):
    """A DCGAN in small: noise (4, 1, 1) to a picture (1, 4, 4) in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 2, 2)
        self.norm = nn.BatchNorm2d(2)
        self.out = nn.ConvTranspose2d(2, 1, 3)

    def forward(self, noise: Tensor) -> Tensor:
        return torch.tanh(self.out(torch.relu(self.norm(self.up(noise)))))


def test_a_torch_generator_is_run_in_eval_mode_and_left_as_it_was() -> None:
    module = Generator().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = load_source(module, (1, 4, 4), size=130, noise_shape=(4, 1, 1))
    assert x.shape == (130, 1, 4, 4)
    assert not x.requires_grad
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(x, load_source(module, (1, 4, 4), size=130, noise_shape=(4, 1, 1)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_same_generator_as_onnx_makes_the_same_samples(tmp_path: Path) -> None:
    module = Generator().eval()
    path = tmp_path / "dcgan.onnx"
    torch.onnx.export(
        module, (torch.randn(2, 4, 1, 1),), path, dynamo=False, input_names=["z"], dynamic_axes={"z": {0: "n"}}
    )
    ours = load_source(str(path), (1, 4, 4), size=256)
    torch.testing.assert_close(ours, load_source(module, (1, 4, 4), size=256, noise_shape=(4, 1, 1)))


@pytest.mark.parametrize(("shape", "says"), [((), "give noise_shape"), ((7,), r"refuses noise of \(7,\)")])
def test_a_torch_generator_that_is_called_wrongly_is_named(shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(DataError, match=says):
        load_source(Generator(), (1, 4, 4), size=2, noise_shape=shape)


def test_gaussian_noise_is_normal_noise_stretched_to_the_range_batch_by_batch() -> None:
    """x = 2 (g - min g) / (max g - min g) - 1, batch by batch."""
    x = gaussian_noise(200, (3,), torch.Generator().manual_seed(1))
    g = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))
    parts = [2 * (b - b.min()) / (b.max() - b.min()) - 1 for b in g.split(128)]
    torch.testing.assert_close(x, torch.cat(parts))
    assert bool(gaussian_noise(1, (1,), torch.Generator()).isfinite().all())  # one number: max and min are the same


def test_a_vocabulary_of_padding_alone_is_padding() -> None:
    assert uniform_noise(4, (2,), torch.Generator(), tokens=1).unique().tolist() == [0]


def test_a_module_that_fails_is_left_in_its_mode() -> None:
    module = Generator().train()
    with pytest.raises(DataError, match="Generator: refuses noise"):
        from_module(module, (7,), 2, torch.Generator())
    assert module.training
