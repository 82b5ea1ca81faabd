"""Which prototypes are chains, and that reordering their units changes nothing."""

import pytest
import torch
from torch import nn

from aggregator.fusion.averages.unit_matching import chain_of, reorder_inputs, reordered, rows
from core.errors import ConfigError
from models.build import build
from models.spec import PrototypeSpec
from quant.precision import parse_precision


def spec_of(arch: str, precision: str = "fp32", shape: tuple[int, ...] = (1, 8, 8), **more: int) -> PrototypeSpec:
    return PrototypeSpec(arch, parse_precision(precision), shape, 3, **more)


def test_layers_come_from_input_to_output() -> None:
    assert chain_of(spec_of("mlp")) == ("extractor.body.fc1", "extractor.body.fc2", "predictor")
    assert chain_of(spec_of("mlp", latent=5))[-2:] == ("extractor.adapter", "predictor")
    assert chain_of(spec_of("mcmahan_cnn")) == (
        "extractor.body.conv1",
        "extractor.body.conv2",
        "extractor.body.fc",
        "predictor",
    )
    assert len(chain_of(spec_of("vgg9"))) == 9


@pytest.mark.parametrize("precision", ["w8a8", "w1", "w1a1"])
def test_a_quantized_prototype_has_the_layers_of_its_float_twin(precision: str) -> None:
    assert chain_of(spec_of("mlp", precision)) == chain_of(spec_of("mlp"))


@pytest.mark.parametrize(
    ("arch", "shape", "what"),
    [
        ("cnn", (1, 8, 8), r"cnn:fp32 cannot be matched: 'extractor.body.norm1' is a BatchNorm2d"),
        ("resnet8", (3, 8, 8), r"resnet8:fp32 cannot be matched: .* is a BatchNorm2d"),
        ("resnet8-gn", (3, 8, 8), r"resnet8-gn:fp32 cannot be matched: .* is a GroupNorm"),
        ("text", (6,), r"text:fp32 cannot be matched: .* is a Embedding"),
    ],
)
def test_what_is_no_chain_is_refused_by_name(arch: str, shape: tuple[int, ...], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        chain_of(spec_of(arch, shape=shape))


class Residual(nn.Module):
    width = 6

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.b(self.a(x).relu()) + x
        return z


def test_a_residual_connection_is_found_without_a_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.build.architecture", lambda _: lambda layers, input_shape: Residual())
    with pytest.raises(ConfigError, match="mine:fp32 cannot be matched: its layers are not in plain sequence"):
        chain_of(PrototypeSpec("mine", parse_precision("fp32"), (6,), 2))


@pytest.mark.parametrize("arch", ["mlp", "mcmahan_cnn", "vgg9"])
def test_reordered_units_compute_the_same(arch: str) -> None:
    seed = torch.Generator().manual_seed(3)
    model = build(spec_of(arch), generator=seed).eval()
    x = model.example_input(3, generator=seed)
    state, names = model.state_dict(), chain_of(spec_of(arch))
    orders = [torch.randperm(len(state[f"{name}.weight"]), generator=seed) for name in names[:-1]]
    with torch.no_grad():
        before = model(x).clone()
        model.load_state_dict(reordered({n: w.clone() for n, w in state.items()}, names, orders))
        assert torch.allclose(model(x), before, rtol=1e-4, atol=1e-5)


def test_a_channel_takes_all_its_columns_along() -> None:
    # two channels of two positions each are flattened into four columns
    state = {"fc.weight": torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]])}
    reorder_inputs(state, "fc", torch.tensor([1, 0]))
    assert state["fc.weight"].tolist() == [[3, 4, 1, 2], [7, 8, 5, 6]]


def test_a_unit_is_its_weights_and_its_bias() -> None:
    state = {"c.weight": torch.arange(8.0).reshape(2, 1, 2, 2), "c.bias": torch.tensor([10.0, 20])}
    assert rows(state, "c").tolist() == [[0, 1, 2, 3, 10], [4, 5, 6, 7, 20]]
    assert rows({"c.weight": torch.ones(2, 3)}, "c").tolist() == [[1, 1, 1], [1, 1, 1]]
