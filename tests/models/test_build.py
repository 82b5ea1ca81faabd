"""From a spec to a module."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from core.errors import ConfigError, ModelError
from models.build import build
from models.spec import PrototypeSpec
from quant.precision import FP32, PRECISIONS, Precision

Install = Callable[[str, str, dict[str, str]], None]
CNN = PrototypeSpec("cnn", FP32, (1, 8, 8), 10)
W1 = Precision(1, None)


def seed(n: int) -> torch.Generator:
    return torch.Generator().manual_seed(n)


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_equal_seeds_give_equal_weights_and_leave_the_global_state_alone(precision: Precision) -> None:
    spec = replace(CNN, precision=precision, latent=16)
    before = torch.get_rng_state()
    first, second, other = (build(spec, generator=seed(n)) for n in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert same(first, second)
    assert not same(first, other)


def test_a_one_bit_prototype_starts_from_the_weights_of_its_float_twin() -> None:
    assert same(build(CNN, generator=seed(1)), build(replace(CNN, precision=W1), generator=seed(1)))


def test_the_global_state_does_not_matter() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = build(CNN, generator=seed(7))
        torch.manual_seed(2)
        assert same(first, build(CNN, generator=seed(7)))


def test_the_spec_decides_latent_and_classes() -> None:
    made = build(replace(CNN, latent=16, classes=3))
    assert made.spec.latent == made.latent == 16
    assert made.extractor(torch.zeros(2, 1, 8, 8)).shape == (2, 16)
    assert made(torch.zeros(2, 1, 8, 8)).shape == (2, 3)


def test_options_reach_the_architecture() -> None:
    assert build(PrototypeSpec("mlp", FP32, (4,), 2), options={"hidden": 5}).latent == 5


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"mlp:fp32: unknown option 'hiden'; did you mean 'hidden'\?"):
        build(PrototypeSpec("mlp", FP32, (4,), 2), options={"hiden": 5})
    with pytest.raises(ConfigError, match="cnn:fp32: unknown option 'depth'; it has none"):
        build(CNN, options={"depth": 5})


USERNET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, layers, inputs, width):
        super().__init__()
        self.fc = layers.linear(inputs, width)
        self.act = layers.activation()
        self.width = width

    def forward(self, x):
        return self.act(self.fc(x.flatten(1)))

def net(layers, input_shape, width=6):
    return Net(layers, input_shape[0], width)

def anything(layers, input_shape, **options):
    return Net(layers, input_shape[0], options["size"])

def fails(layers, input_shape):
    raise RuntimeError("no such luck")

def no_width(layers, input_shape):
    return nn.Identity()

def no_module(layers, input_shape):
    return 3
"""


@pytest.fixture
def usernets(install: Install) -> None:
    functions = ("net", "anything", "fails", "no_width", "no_module")
    install("usernets", USERNET, {f"user-{f}": f"usernets:{f}" for f in functions})


@pytest.mark.usefixtures("usernets")
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_a_users_model_is_a_prototype_in_every_precision(precision: Precision) -> None:
    made = build(PrototypeSpec("user-net", precision, (4,), 3, latent=5), generator=seed(0))
    assert str(made.spec) == f"user-net:{precision}"
    assert made(made.example_input(2)).shape == (2, 3)
    assert made.extractor.body.fc.weight.shape == (6, 4)
    assert made.latent == 5


@pytest.mark.usefixtures("usernets")
def test_a_users_model_takes_its_options() -> None:
    assert build(PrototypeSpec("user-net", FP32, (4,), 3), options={"width": 9}).latent == 9
    assert build(PrototypeSpec("user-anything", FP32, (4,), 3), options={"size": 8}).latent == 8


@pytest.mark.usefixtures("usernets")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("user-fails", r"user-fails:w1: building it for input \(4,\) failed \(RuntimeError\('no such luck'\)\)"),
        (
            "user-no_width",
            "user-no_width:w1: the architecture must return an nn.Module with a positive integer `width`",
        ),
        ("user-no_module", "user-no_module:w1: the architecture must return an nn.Module"),
    ],
)
def test_a_users_model_that_cannot_be_built_is_one_line_that_names_it(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(PrototypeSpec(name, W1, (4,), 3))
