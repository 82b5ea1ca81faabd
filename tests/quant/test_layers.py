"""Every precision has the layers it names, and each layer tells its weight and its activation alike."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.layers import (
    act_quant,
    effective_weight,
    is_quantized,
    layers_for,
    quantized_weight,
    weights_as_they_are,
)
from quant.precision import FP32, PRECISIONS, Precision, parse_precision
from quant.quantized_weight import QuantizedWeight
from quant.spectral import Conv2d
from tests.quant.nets import small_net

QUANTIZED = [p for p in PRECISIONS if p.quantized]


@pytest.fixture
def x() -> Tensor:
    return torch.randn(4, 2, 5, 5, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_the_layers_know_their_precision_and_give_it_to_every_weight(precision: Precision) -> None:
    assert layers_for(precision).precision == precision
    weights = [quantized_weight(m) for m in small_net(precision) if hasattr(m, "weight") and m.weight.ndim > 1]
    assert [None if q is None else q.bits for q in weights] == [precision.weight_bits] * 3


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_the_activation_has_the_bits_of_the_precision(precision: Precision) -> None:
    act = layers_for(precision).activation()
    params = act_quant(act)
    assert (None if params is None else params.bits) == precision.act_bits
    values = act(torch.linspace(-9, 9, 5000)).unique()
    if precision.act_bits is not None:
        assert values.numel() == 2**precision.act_bits


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_parameters_carry_the_names_and_shapes_of_the_float_twin(precision: Precision) -> None:
    twin = {name: t.shape for name, t in small_net(FP32).state_dict().items()}
    own = {name: t.shape for name, t in small_net(precision).state_dict().items()}
    assert twin.items() <= own.items()
    extra = own.keys() - twin.keys()
    assert len(extra) == (2 if precision.act_bits not in (None, 1) else 0)
    assert all(own[name] == () and name.startswith(("2.", "5.")) for name in extra)


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_levels_scale_and_mean_are_the_weight_that_forward_uses(precision: Precision) -> None:
    for module in small_net(precision):
        quant = quantized_weight(module)
        assert (quant is not None) == is_quantized(module)
        if quant is not None:
            assert quant.levels.dtype == torch.int8
            assert torch.equal(quant.dequantize(), effective_weight(module))
            assert not torch.equal(effective_weight(module), module.weight)  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_a_frozen_network_computes_the_same_and_keeps_its_levels(precision: Precision, x: Tensor) -> None:
    net = small_net(precision).eval()
    before = net(x)
    for module in net:
        if isinstance(module, QuantizedWeight):
            module.freeze_weight(quantized_weight(module))
            assert module.weight_frozen
            assert quantized_weight(module) is module.frozen_quant
    assert torch.equal(net(x), before)
    assert torch.equal(copy.deepcopy(net)(x), before)


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_a_frozen_weight_is_used_as_it_is_and_an_unfrozen_one_is_quantized_again(precision: Precision) -> None:
    linear = layers_for(precision).linear(3, 2, bias=False)
    assert isinstance(linear, QuantizedWeight)
    linear.weight.data = torch.tensor([[0.11, 0.22, 0.33], [1.0, 2.0, 3.5]])
    linear.freeze_weight()
    eye = torch.eye(3)
    assert torch.equal(linear(eye), linear.weight.T)  # type: ignore[operator]
    assert torch.equal(effective_weight(linear), linear.weight)  # type: ignore[arg-type]
    linear.unfreeze_weight()
    assert not linear.weight_frozen
    assert torch.equal(linear(eye), effective_weight(linear).T)  # type: ignore[arg-type, operator]
    assert not torch.equal(linear(eye), linear.weight.T)  # type: ignore[operator]


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_a_frozen_weight_without_its_levels_has_none_to_tell(precision: Precision) -> None:
    linear = layers_for(precision).linear(3, 2)
    assert isinstance(linear, QuantizedWeight)
    linear.freeze_weight()
    assert quantized_weight(linear) is None
    linear.unfreeze_weight()
    linear.freeze_weight(linear.quantize_weight())
    assert quantized_weight(linear) is not None
    linear.weight.data += 1.0
    assert quantized_weight(linear) is None


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_gradients_reach_every_parameter(precision: Precision, x: Tensor) -> None:
    net = small_net(precision)
    (net(x) * torch.randn(4, 3, generator=torch.Generator().manual_seed(2))).sum().backward()
    for name, p in net.named_parameters():
        if name != "3.bias":  # the batch's mean takes a bias in front of BatchNorm away
            assert p.grad is not None, name
            assert p.grad.abs().sum() > 0, name


def test_float_layers_are_plain_torch() -> None:
    layers = layers_for(FP32)
    assert type(layers.conv2d(1, 1, 1)) is Conv2d  # of torch, but for large filters
    assert type(layers.linear(1, 1)) is nn.Linear
    assert type(layers.activation()) is nn.ReLU
    assert type(layers_for(parse_precision("w1")).activation()) is nn.ReLU


def test_the_one_bit_layers_do_not_import_brevitas() -> None:
    code = (
        "import sys; from quant.layers import layers_for; from quant.precision import parse_precision;"
        "layers_for(parse_precision('w1a1')).conv2d(1, 1, 1); sys.exit('brevitas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_weights_as_they_are_is_the_full_precision_form_for_a_while(precision: Precision) -> None:
    layer = layers_for(precision).linear(6, 4)
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(5))
    quantized = layer(x)
    with weights_as_they_are(layer):
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), rtol=1e-6, atol=1e-6)
    assert torch.equal(layer(x), quantized)
    assert not torch.equal(effective_weight(layer), layer.weight)


def test_a_weight_that_was_frozen_stays_so_after_weights_as_they_are() -> None:
    layer = layers_for(parse_precision("w1")).linear(3, 2)
    layer.freeze_weight()
    with weights_as_they_are(layer):
        pass
    assert layer.weight_frozen
