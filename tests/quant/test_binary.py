"""The straight-through sign and the binary weight against their formulas, alone and under torch.func."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from quant.binary import BinaryActivation, BinaryConv2d, BinaryLinear, binarize, sign_ste

#: Both sides of every edge of the formula.
EDGES = [-2.0, -1.0000001, -1.0, -0.9999999, -0.5, -1e-45, -0.0, 0.0, 1e-45, 0.5, 0.9999999, 1.0, 1.0000001, 2.0]


def test_the_sign_is_that_of_the_sign_bit() -> None:
    signs = sign_ste(torch.tensor(EDGES))
    assert signs.tolist() == [math.copysign(1.0, x) for x in EDGES]
    assert sign_ste(torch.tensor(0.0)) == 1
    assert sign_ste(torch.tensor(-0.0)) == -1


def test_the_gradient_passes_strictly_inside_one_and_nowhere_else() -> None:
    x = torch.tensor(EDGES, requires_grad=True)
    upstream = torch.arange(1.0, len(EDGES) + 1)
    sign_ste(x).backward(upstream)
    assert x.grad is not None
    assert x.grad.tolist() == [g if abs(v) < 1 else 0.0 for v, g in zip(x.tolist(), upstream.tolist(), strict=True)]


def test_the_gradient_of_random_values_is_the_clipped_formula() -> None:
    x = (3 * torch.randn(1000, generator=torch.Generator().manual_seed(0))).requires_grad_()
    upstream = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    sign_ste(x).backward(upstream)
    assert torch.equal(x.grad, upstream * (x.abs() < 1))  # type: ignore[arg-type]


def test_func_grad_of_the_sign_is_the_formula_too() -> None:
    x = torch.tensor([-1.5, -0.5, 0.5, 1.5])
    assert grad(lambda v: (sign_ste(v) * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum())(x).tolist() == [0.0, 2.0, 3.0, 0.0]


def test_vmap_of_the_sign_and_of_its_gradient_equals_the_loop() -> None:
    x = 2 * torch.randn(5, 7, generator=torch.Generator().manual_seed(2))

    def loss(v: Tensor) -> Tensor:
        return (sign_ste(v) * torch.arange(7.0)).sum()

    assert torch.equal(vmap(sign_ste)(x), torch.stack([sign_ste(v) for v in x]))
    assert torch.equal(vmap(grad(loss))(x), torch.stack([grad(loss)(v) for v in x]))


def test_a_binary_weight_has_the_mean_and_rms_worked_by_hand() -> None:
    w = torch.tensor([[1.0, 3.0, -3.0, 7.0]])  # mean 2; centred -1 1 -5 5; squares 1 1 25 25, mean 13
    s = float(torch.tensor(math.sqrt(13.0)).half())
    assert binarize(w, (1,)).tolist() == [[2 - s, 2 + s, 2 - s, 2 + s]]


def test_a_weight_equal_to_its_mean_counts_as_positive() -> None:
    w = torch.tensor([[-1.0, 0.0, 1.0]])
    assert (binarize(w, (1,)) > 0).tolist() == [[False, True, True]]


def test_signs_out_of_balance_keep_mean_and_variance_worked_by_hand() -> None:
    w = torch.tensor([[-3.0, 0.0, 1.0, 2.0]])  # mean 0, squares 9 0 1 4; three of four signs positive: m = 1/2
    s = math.sqrt(14 / 4 / (1 - 1 / 4))
    expected = torch.tensor([[-s / 2 - s, -s / 2 + s, -s / 2 + s, -s / 2 + s]])
    torch.testing.assert_close(binarize(w, (1,)), expected, rtol=2**-10, atol=0)


def test_the_weights_gradient_is_the_identity_even_far_from_the_mean() -> None:
    w = torch.tensor([[-100.0, 0.5, 2.0, 100.0]], requires_grad=True)
    binarize(w, (1,)).backward(torch.tensor([[1.0, -2.0, 3.0, 4.0]]))
    assert w.grad is not None
    assert w.grad.tolist() == [[1.0, -2.0, 3.0, 4.0]]


def test_a_convolution_has_a_mean_and_a_scale_per_filter_and_a_matrix_per_row() -> None:
    conv, linear = BinaryConv2d(3, 5, 3), BinaryLinear(4, 6)
    assert [conv.effective_weight()[i].unique().numel() for i in range(5)] == [2] * 5
    assert conv.effective_weight().unique().numel() == 10
    assert [linear.effective_weight()[i].unique().numel() for i in range(6)] == [2] * 6
    assert conv.quantize_weight().scale.shape == (5,)
    assert linear.quantize_weight().scale.shape == (6,)


def test_mean_and_scale_match_a_float64_reference_to_half_precision() -> None:
    conv = BinaryConv2d(4, 6, 3)
    with torch.no_grad():
        conv.weight.add_(torch.linspace(-1, 1, 6)[:, None, None, None])
    w = conv.weight.detach().double().flatten(1)
    q = conv.quantize_weight()
    assert q.mean is not None
    assert q.mean.dtype == q.scale.dtype == torch.float16
    w_q = q.dequantize().double().flatten(1)
    torch.testing.assert_close(w_q.mean(1), w.mean(1), rtol=2**-9, atol=0)
    torch.testing.assert_close(w_q.std(1, correction=0), w.std(1, correction=0), rtol=2**-10, atol=0)
    assert torch.equal(q.levels.flatten(1) > 0, w >= w.mean(1, keepdim=True))


@pytest.mark.parametrize("layer", [BinaryConv2d(3, 4, 3), BinaryLinear(5, 4), BinaryConv2d(1, 2, 1)])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-6, 1.0, 1e4, 1e9])
def test_levels_scale_and_mean_give_back_the_weight_bit_by_bit(
    layer: BinaryConv2d | BinaryLinear, magnitude: float
) -> None:
    layer = copy.deepcopy(layer)
    with torch.no_grad():
        layer.weight.mul_(magnitude).add_(magnitude / 3)
    q = layer.quantize_weight()
    assert q.bits == 1
    assert set(q.levels.unique().tolist()) <= {-1, 1}
    assert torch.equal(q.dequantize(), layer.effective_weight())
    assert q.dequantize().isfinite().all()


def test_a_constant_filter_keeps_a_scale_above_zero() -> None:
    conv = BinaryConv2d(2, 1, 3)
    nn.init.constant_(conv.weight, 0.5)
    assert conv.quantize_weight().scale.tolist() == [2.0**-14]
    assert conv.effective_weight().unique().tolist() == [0.5 + 2.0**-14]


def test_a_huge_filter_stays_within_float16() -> None:
    linear = BinaryLinear(2, 1)
    linear.weight.data = torch.tensor([[-1e9, 1e9]])
    assert linear.effective_weight().tolist() == [[-65504.0, 65504.0]]


@pytest.mark.parametrize(("stride", "padding", "groups", "bias"), [(1, 0, 1, True), (2, 1, 2, False)])
def test_a_binary_convolution_is_a_convolution_with_the_binary_weight(
    stride: int, padding: int, groups: int, bias: bool
) -> None:
    conv = BinaryConv2d(4, 6, 3, stride=stride, padding=padding, groups=groups, bias=bias)
    x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(3))
    w = conv.quantize_weight().dequantize()
    assert torch.equal(conv(x), F.conv2d(x, w, conv.bias, stride, padding, 1, groups))


def test_the_forward_pass_leaves_the_latent_weight_alone() -> None:
    linear = BinaryLinear(3, 2)
    linear.weight.data = torch.tensor([[50.0, -50.0, 1.0], [0.0, -2.0, 9.0]])
    before = linear.weight.detach().clone()
    linear(torch.ones(1, 3)).sum().backward()
    assert torch.equal(linear.weight, before)


@pytest.mark.parametrize("fan_in", [1, 2, 3, 9, 54, 784])
def test_binarizing_twice_is_binarizing_once(fan_in: int) -> None:
    w = torch.randn(64, fan_in, generator=torch.Generator().manual_seed(fan_in)) / 7 + 0.3
    once = binarize(w, (1,))
    torch.testing.assert_close(binarize(once, (1,)), once, rtol=2**-9, atol=2**-11)  # a step of float16, no more


def test_a_frozen_weight_is_used_bit_by_bit() -> None:
    linear = BinaryLinear(4, 1, bias=False)
    linear.weight.data = torch.tensor([[0.1, -0.7, 0.3, 4.0]])
    once = linear.quantize_weight()
    linear.freeze_weight(once)
    assert torch.equal(linear.effective_weight(), once.dequantize())


def test_error_feedback_and_the_latent_weight_walk_the_same_way() -> None:
    """The authors' loop: add the residual back, step at the quantized weight, quantize, keep the residual.

    The two walks differ by float32 rounding only.
    """
    latent = BinaryLinear(4, 1, bias=False)
    latent.weight.data = torch.tensor([[0.25, -0.5, 1.0, -0.75]])
    w_q = binarize(latent.weight.detach(), (0, 1))
    residual = latent.weight.detach() - w_q
    for step in range(6):
        x = torch.tensor([[1.0, -1.0, 0.5, float(step)]])
        (g,) = torch.autograd.grad(latent(x).sum(), [latent.weight])
        latent.weight.data -= 0.5 * g
        stepped = (w_q - 0.5 * x) + residual  # the gradient of the sum of x @ w_q is x
        w_q = binarize(stepped, (0, 1))
        residual = stepped - w_q
        torch.testing.assert_close(stepped, latent.weight.detach(), rtol=0, atol=1e-5)
        assert torch.equal(w_q > w_q.mean(), latent.effective_weight() > latent.effective_weight().mean())


def small_net(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        BinaryConv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), BinaryActivation(), nn.Flatten(), BinaryLinear(36, 3)
    )


def test_vmap_over_stacked_networks_equals_the_loop_forward_and_backward() -> None:
    nets = [small_net(seed) for seed in range(3)]
    params, buffers = stack_module_state(nets)
    x = torch.randn(3, 5, 2, 3, 3, generator=torch.Generator().manual_seed(4))
    y = torch.tensor([0, 1, 2, 0, 1])

    def loss(p: dict[str, Tensor], b: dict[str, Tensor], x: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(nets[0], (p, b), (x,)), y)

    together = vmap(grad(loss))(params, buffers, x)
    for i, net in enumerate(nets):
        F.cross_entropy(net(x[i]), y).backward()
        for name, p in net.named_parameters():
            torch.testing.assert_close(together[name][i], p.grad, rtol=1e-5, atol=1e-6)


def test_a_deep_copy_computes_the_same_and_is_its_own() -> None:
    net = small_net(0)
    net[4].freeze_weight(net[4].quantize_weight())  # type: ignore[operator]
    twin = copy.deepcopy(net)
    x = torch.randn(2, 2, 3, 3)
    assert torch.equal(net(x), twin(x))
    assert twin[4].weight_frozen
    with torch.no_grad():
        twin[0].weight.neg_()  # type: ignore[operator, union-attr]
    assert not torch.equal(net(x), twin(x))


def test_training_flips_signs_that_start_wrong() -> None:
    """y = [x0 > x1], so the right signs are + and -."""
    linear = BinaryLinear(2, 1, bias=False)
    linear.weight.data = torch.tensor([[-0.1, 0.1]])
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, :1] > x[:, 1:]).float()
    for _ in range(20):
        (g,) = torch.autograd.grad(F.binary_cross_entropy_with_logits(linear(x), y), [linear.weight])
        linear.weight.data -= 0.1 * g
    assert linear.quantize_weight().levels.tolist() == [[1, -1]]
