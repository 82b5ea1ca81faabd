"""Brevitas' layers have the bits they were asked for, exact levels, and no state outside the state dict."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from quant.brevitas_layers import IntConv2d, IntLinear, IntReLU

BITS = [8, 4, 2]
SCALE = "act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl.value"


@pytest.mark.parametrize("bits", BITS)
def test_each_layer_has_the_bits_it_was_asked_for(bits: int) -> None:
    """Brevitas ignores a misspelt keyword, so the layer is asked."""
    for layer in (IntConv2d(3, 4, 3, bits=bits), IntLinear(5, 4, bits=bits)):
        _, _, zero_point, bit_width = layer.weight_quant.tensor_quant(layer.weight)
        assert int(bit_width) == layer.weight_bits == layer.quantize_weight().bits == bits
        assert layer.weight_quant.is_signed
        assert layer.weight_quant.is_narrow_range
        assert float(zero_point) == 0
        assert layer.quantize_weight().scale.shape == (4,)
    act = IntReLU(bits=bits)
    assert act.act_quant_params().bits == bits
    assert not act.act_quant.is_signed
    assert act(torch.linspace(0, 10, 4000)).unique().numel() == 2**bits


@pytest.mark.parametrize("bits", BITS)
def test_levels_are_narrow_and_symmetric(bits: int) -> None:
    linear = IntLinear(400, 2, bits=bits)
    top = 2 ** (bits - 1) - 1
    levels = linear.quantize_weight().levels
    assert (int(levels.min()), int(levels.max())) == (-top, top)


@pytest.mark.parametrize("bits", [8, 4])
def test_the_scale_is_the_largest_weight_over_the_top_level(bits: int) -> None:
    linear = IntLinear(3, 2, bits=bits)
    linear.weight.data = torch.tensor([[0.7, -1.4, 0.1], [0.0, 0.5, -0.25]])
    top = 2 ** (bits - 1) - 1
    assert torch.equal(linear.quantize_weight().scale, torch.tensor([1.4, 0.5]) / top)
    assert linear.quantize_weight().levels[0, 1] == -top


def test_two_bits_are_ternary_with_one_and_a_half_times_the_mean() -> None:
    linear = IntLinear(4, 1, bits=2)
    linear.weight.data = torch.tensor([[0.1, -0.2, 0.3, -1.0]])  # mean |w| = 0.4, scale 0.6, threshold 0.3
    q = linear.quantize_weight()
    torch.testing.assert_close(q.scale, torch.tensor([0.6]))
    assert q.levels.tolist() == [[0, 0, 0, -1]]
    linear.weight.data = torch.tensor([[0.1, -0.2, 0.31, -0.99]])
    assert linear.quantize_weight().levels.tolist() == [[0, 0, 1, -1]]


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("magnitude", [0.0, 1e-20, 1e-3, 1.0, 1e6])
def test_scale_times_level_is_the_weight_of_the_forward_pass_exactly(bits: int, magnitude: float) -> None:
    conv = IntConv2d(3, 16, 3, bits=bits)
    conv.weight.data *= magnitude
    q = conv.quantize_weight()
    assert torch.equal(q.dequantize(), conv.quant_weight())
    assert (q.scale > 0).all()


def test_a_filter_of_one_weight_is_quantized_to_a_finite_value() -> None:
    for bits in BITS:
        assert IntConv2d(1, 3, 1, bits=bits).effective_weight().isfinite().all()


@pytest.mark.parametrize("bits", BITS)
def test_the_activation_is_the_clipped_rounded_formula(bits: int) -> None:
    act = IntReLU(bits=bits).eval()
    p = act.act_quant_params()
    assert (p.bits, p.low, p.high, p.zero_point) == (bits, 0, 2**bits - 1, 0)
    x = torch.linspace(-3, 12, 3001)
    scale = torch.tensor(p.scale)
    assert torch.equal(act(x), torch.clamp(torch.round(x / scale), p.low, p.high) * scale)


def test_a_tie_is_rounded_to_even_as_onnx_does() -> None:
    act = IntReLU(bits=4)
    act.load_state_dict({SCALE: torch.tensor(15.0)})  # a step of 1
    assert act(torch.tensor([0.5, 1.5, 2.5, 14.5, 15.5, 99.0])).tolist() == [0.0, 2.0, 2.0, 14.0, 15.0, 15.0]


@pytest.mark.parametrize("bits", BITS)
def test_a_fresh_activation_has_its_scale_in_the_state_dict_before_any_step(bits: int) -> None:
    act = IntReLU(bits=bits)
    assert list(act.state_dict()) == [SCALE]
    x = torch.linspace(0, 3, 50)
    assert torch.equal(act.train()(x), act.eval()(x))


def test_steps_taken_do_not_change_how_the_activation_behaves() -> None:
    """Brevitas' default counts its training steps outside the state dict; this one has nothing to count."""
    walked, fresh = IntReLU(bits=4), IntReLU(bits=4)
    for _ in range(3):
        walked(100 * torch.rand(8))
    fresh.load_state_dict(walked.state_dict())
    x = torch.linspace(0, 9, 50)
    for mode in (True, False):
        assert torch.equal(walked.train(mode)(x), fresh.train(mode)(x))


def test_the_scale_is_learned_and_survives_loading_as_the_same_parameter() -> None:
    act = IntReLU(bits=2)
    (scale,) = act.parameters()
    act.load_state_dict({SCALE: torch.tensor(1.5)})
    assert next(act.parameters()) is scale, "an optimizer would go on with a tensor that the layer has dropped"
    act(torch.tensor([5.0])).sum().backward()
    assert scale.grad is not None
    assert float(scale.grad) == pytest.approx(1.0)  # clipped: y = value, so dy/dvalue = 1
    assert act.act_quant_params().scale == 0.5


def test_a_scale_that_walks_through_zero_stays_usable() -> None:
    act = IntReLU(bits=8)
    for value in (0.0, -1e-9, -2.0):
        act.load_state_dict({SCALE: torch.tensor(value)})
        assert act.act_quant_params().scale > 0
        assert act(torch.tensor([1.0])).isfinite().all()


@pytest.mark.parametrize("bits", BITS)
def test_weights_have_no_state_but_the_weight_itself(bits: int) -> None:
    assert list(IntConv2d(2, 2, 1, bits=bits).state_dict()) == ["weight"]
    a, b = IntLinear(6, 3, bits=bits), IntLinear(6, 3, bits=bits)
    a(torch.ones(1, 6))
    weight = b.weight
    b.load_state_dict(a.state_dict())
    assert b.weight is weight
    assert torch.equal(a(torch.ones(1, 6)), b(torch.ones(1, 6)))


@pytest.mark.parametrize("bits", BITS)
def test_the_gradient_of_a_far_weight_is_not_cut_off(bits: int) -> None:
    linear = IntLinear(5, 1, bits=bits, bias=False)
    linear.weight.data = torch.tensor([[0.1, 0.1, 0.1, 0.1, 9.0]])
    linear(torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]])).sum().backward()
    assert float(linear.weight.grad[0, 4]) == pytest.approx(1.0)


@pytest.mark.parametrize("bits", BITS)
def test_a_functional_call_quantizes_the_weight_it_is_given(bits: int) -> None:
    a, b = IntConv2d(2, 3, 3, bits=bits), IntConv2d(2, 3, 3, bits=bits)
    x = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    other: dict[str, Tensor] = dict(b.named_parameters())
    assert torch.equal(functional_call(a, other, (x,)), b(x))
    assert not torch.equal(a(x), b(x))


def test_a_frozen_layer_stays_frozen_in_a_copy_and_after_loading() -> None:
    linear = IntLinear(3, 2, bits=4, bias=False)
    linear.freeze_weight(linear.quantize_weight())
    twin = copy.deepcopy(linear)
    twin.load_state_dict({"weight": torch.tensor([[0.1, 0.23, 0.37], [1.0, 2.3, 3.1]])})
    assert twin.weight_frozen
    assert torch.equal(twin(torch.eye(3)), twin.weight.T)
    assert not torch.equal(twin.weight, linear.weight)
