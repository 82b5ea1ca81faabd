"""Unlabeled samples: files, noise and generators, checked against the task and the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from aggregator.fusion.teachers.unlabeled import SIZE, load_source
from core.errors import ConfigError, DataError

X = np.arange(24, dtype=np.float32).reshape(12, 2)
Y = np.array([0, 0, 1, 1, 2, 2, 0, 1, 2, 0, 1, 2])


def pool(folder: Path, **arrays: np.ndarray) -> str:
    path = folder / "pool.npz"
    np.savez(path, **(arrays or {"x": X, "y": Y}))
    return str(path)


def rows(x: Tensor) -> list[int]:
    """Which rows of X these are."""
    return [int(v) // 2 for v in x[:, 0]]


def test_a_file_needs_inputs_and_nothing_else(tmp_path: Path) -> None:
    assert torch.equal(load_source(pool(tmp_path, x=X), (2,)), torch.from_numpy(X))


def test_labels_of_a_file_are_not_even_read(tmp_path: Path) -> None:
    labels = np.array([np.nan, -3.0])
    assert len(load_source(pool(tmp_path, x=X, y=labels), (2,))) == 12


def test_a_path_object_serves_too(tmp_path: Path) -> None:
    assert len(load_source(Path(pool(tmp_path)), (2,))) == 12


def test_classes_then_fraction_then_size(tmp_path: Path) -> None:
    path = pool(tmp_path)
    assert rows(load_source(path, (2,), classes=[2])) == [4, 5, 8, 11]
    half = rows(load_source(path, (2,), classes=[1, 2], fraction=0.5))
    assert len(half) == 4
    assert half == sorted(half)
    assert set(half) <= {2, 3, 4, 5, 7, 8, 10, 11}
    assert len(load_source(path, (2,), classes=[1, 2], fraction=0.5, size=3)) == 3


def test_the_seed_decides_which_samples(tmp_path: Path) -> None:
    path = pool(tmp_path)
    draws = [rows(load_source(path, (2,), size=5, seed=seed)) for seed in (0, 0, 1, 2)]
    assert draws[0] == draws[1]
    assert len({tuple(d) for d in draws}) == 3


def test_bytes_are_normalised_as_the_file_says(tmp_path: Path) -> None:
    path = pool(tmp_path, x=np.full((3, 1, 2, 2), 255, np.uint8), mean=np.array(127.5), std=np.array(127.5))
    assert load_source(path, (1, 2, 2)).unique().tolist() == [1.0]


def test_token_ids_are_int64_and_within_the_vocabulary(tmp_path: Path) -> None:
    path = pool(tmp_path, x=np.array([[1, 2, 9], [4, 0, 0]], np.int32))
    ids = load_source(path, (3,), tokens=10)
    assert ids.dtype == torch.int64
    assert ids.tolist() == [[1, 2, 9], [4, 0, 0]]
    with pytest.raises(DataError, match="token ids from 0 to 9, the task has 0 to 8"):
        load_source(path, (3,), tokens=9)


@pytest.mark.parametrize(
    ("arrays", "options", "says"),
    [
        ({"y": Y}, {}, "no array 'x'"),
        ({"x": X}, {"classes": [1]}, "no array 'y'"),
        ({"x": X[:, 0]}, {}, "give one or more inputs"),
        ({"x": X[:0]}, {}, "give one or more inputs"),
        ({"x": X, "y": Y[:3]}, {"classes": [1]}, "for 3 labels"),
        ({"x": np.full((2, 2), np.nan, np.float32)}, {}, "NaN or infinity"),
        ({"x": X.reshape(12, 1, 2)}, {}, "its samples are 1x2, the task's 2"),
        ({"x": X.astype(np.int64)}, {}, "int64, the task takes float32"),
        ({"x": X}, {"tokens": 100}, "float32, the task takes token ids"),
        ({"x": X, "y": Y}, {"classes": [1, 7]}, "no sample of class 7; it has 0 1 2"),
        ({"x": X}, {"size": 13}, "13 samples wanted, there are 12"),
        ({"x": X}, {"size": 0}, "0 samples wanted"),
        ({"x": X}, {"fraction": 0.0}, "above 0 and at most 1"),
        ({"x": X}, {"fraction": 1.5}, "above 0 and at most 1"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(tmp_path: Path, arrays: dict, options: dict, says: str) -> None:
    with pytest.raises((DataError, ConfigError), match=says) as caught:
        load_source(pool(tmp_path, **arrays), (2,), **options)
    assert "pool.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("nothing.npz", "nothing.onnx"):
        with pytest.raises(DataError, match=f"{name}: No such file"):
            load_source(str(tmp_path / name), (2,))


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


@pytest.mark.parametrize("what", ["noise", "noise:gaussian"])
def test_noise_follows_the_seed_and_has_a_size_of_its_own(what: str) -> None:
    first, again, other = (load_source(what, (2,), seed=seed) for seed in (0, 0, 1))
    assert len(first) == SIZE
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_noise_has_no_classes_and_no_fraction() -> None:
    for options in ({"classes": [1]}, {"fraction": 0.5}):
        with pytest.raises(ConfigError, match="no classes and no end"):
            load_source("noise", (2,), **options)
    with pytest.raises(ConfigError, match="at least 1"):
        load_source("noise", (2,), size=0)


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"give an \.npz with x, a generator as \.onnx, noise or noise:gaussian"):
        load_source("niose", (2,))


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
