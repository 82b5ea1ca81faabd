"""A frozen copy computes what the model computes, bit by bit, in torch's own layers and under the same names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from core.errors import ModelError
from quant.layers import act_quant, is_quantized, layers_for
from quant.onnx.freeze import WithSteps, _plain_layer, freeze, packed_weights
from quant.precision import parse_precision
from quant.spectral import Conv2d

X = torch.linspace(-2, 2, 2 * 3 * 4 * 4).reshape(2, 3, 4, 4)


def net(precision: str) -> nn.Module:
    torch.manual_seed(0)
    layers = layers_for(parse_precision(precision))
    conv = layers.conv2d(3, 4, 3, stride=2, padding=1)
    return nn.Sequential(conv, nn.BatchNorm2d(4), layers.activation(), nn.Flatten(), layers.linear(16, 5))


@pytest.mark.parametrize("precision", ["fp32", "w1", "w1a1", "w4a4", "w8a8"])
def test_it_answers_as_the_model_does_with_plain_layers_and_the_same_names(precision: str) -> None:
    model = net(precision).eval()
    frozen = freeze(model)
    assert torch.equal(frozen(X), model(X))
    assert list(frozen.state_dict()) == list(model.state_dict())
    assert not any(is_quantized(m) or act_quant(m) is not None for m in frozen.modules())
    assert not any(p.requires_grad for p in frozen.parameters())


def test_the_model_itself_is_not_touched() -> None:
    model = net("w1a1").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    frozen = freeze(model)
    with torch.no_grad():
        for parameter in frozen.parameters():
            parameter.add_(1)
    assert model.training
    assert not frozen.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_convolution_of_the_frequency_domain_becomes_torchs_own() -> None:
    torch.manual_seed(0)
    frozen = freeze(nn.Sequential(Conv2d(3, 4, 3, padding=1)))
    assert type(frozen[0]) is nn.Conv2d


def test_weights_are_packed_by_their_names_and_dequantize_to_the_frozen_ones() -> None:
    model = net("w1")
    packed, frozen = packed_weights(model), freeze(model).state_dict()
    assert packed.keys() == {"0.weight", "4.weight"}
    for name, weight in packed.items():
        assert weight.bits == 1
        assert torch.equal(torch.from_numpy(weight.dequantize()), frozen[name])


def test_steps_are_the_levels_of_quantized_activations_in_the_order_of_calls() -> None:
    with_steps = WithSteps(freeze(net("w4a4")))
    logits, levels = with_steps(X)
    assert torch.equal(levels, levels.round())
    assert float(levels.min()) == 0
    assert 0 < float(levels.max()) <= 15
    assert len(with_steps(X)) == 2  # not those of the call before
    assert torch.equal(logits, with_steps.model(X))


def test_a_layer_that_has_no_form_in_onnx_is_named() -> None:
    with pytest.raises(ModelError, match=r"layer 'head\.odd' is a Conv1d"):
        _plain_layer(nn.Conv1d(1, 1, 1), "head.odd")
