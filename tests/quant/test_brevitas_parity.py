"""Our 1-bit layers against Brevitas' where they mean the same, and a witness for each place where they do not.

`quant/binary.py` lists the differences; every line of that list is a test here.
"""

from __future__ import annotations

import pytest
import torch
from brevitas import nn as qnn
from brevitas.function.ops_ste import binary_sign_ste
from brevitas.quant import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst
from torch import Tensor

from quant.binary import BinaryActivation, BinaryConv2d, BinaryLinear, sign_ste

CLOSE = {"rtol": 0.0, "atol": 1e-6}


def brevitas_sign() -> qnn.QuantIdentity:
    return qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst)


def brevitas_conv(weight: Tensor, scale: float) -> qnn.QuantConv2d:
    c_out, c_in, k, _ = weight.shape
    conv = qnn.QuantConv2d(
        c_in,
        c_out,
        k,
        padding=1,
        bias=False,
        weight_quant=SignedBinaryWeightPerTensorConst,
        weight_scaling_const=scale,
        weight_scaling_init=scale,
    )
    conv.weight.data = weight.clone()
    assert conv.quant_weight().bit_width == 1
    assert conv.quant_weight().scale == scale
    return conv


def value_and_grad(f: torch.nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    y = f(x)
    (g,) = torch.autograd.grad((y * torch.linspace(-1, 2, y.numel()).view_as(y)).sum(), [x])
    return y.detach(), g


def centred_unit_filters() -> Tensor:
    """Filters of mean 0 and RMS 1, every |w| <= 1: +-1 only, half of each, so that no clamp is felt."""
    signs = torch.ones(4, 2, 3, 3).flatten(1)
    signs[:, ::2] = -1
    order = torch.stack([torch.randperm(18, generator=torch.Generator().manual_seed(i)) for i in range(4)])
    return signs.gather(1, order).view(4, 2, 3, 3)


def test_the_sign_and_its_gradient_agree() -> None:
    x = 2 * torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    ours, theirs = value_and_grad(BinaryActivation(), x), value_and_grad(brevitas_sign(), x)
    torch.testing.assert_close(ours, theirs, **CLOSE)


def test_a_binary_convolution_and_all_its_gradients_agree() -> None:
    w = centred_unit_filters()
    x = torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(1))
    ours, theirs = BinaryConv2d(2, 4, 3, padding=1, bias=False), brevitas_conv(w, 1.0)
    ours.weight.data = w.clone()
    torch.testing.assert_close(value_and_grad(ours, x), value_and_grad(theirs, x), **CLOSE)
    for conv in (ours, theirs):
        conv.zero_grad()
        y = conv(x)
        (y * torch.linspace(-0.1, 0.1, y.numel()).view_as(y)).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-6, atol=1e-6)


def test_sign_then_convolution_agree_as_a_block() -> None:
    w = centred_unit_filters()
    conv = BinaryConv2d(2, 4, 3, padding=1, bias=False)
    conv.weight.data = w.clone()
    ours = torch.nn.Sequential(BinaryActivation(), conv)
    theirs = torch.nn.Sequential(brevitas_sign(), brevitas_conv(w, 1.0))
    x = 2 * torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(value_and_grad(ours, x), value_and_grad(theirs, x), **CLOSE)


def test_difference_brevitas_clamps_the_latent_weight_in_place() -> None:
    w = 3 * centred_unit_filters()
    ours, theirs = BinaryConv2d(2, 4, 3, bias=False), brevitas_conv(w, 1.0)
    ours.weight.data = w.clone()
    ours.effective_weight(), theirs.quant_weight()
    assert torch.equal(ours.weight, w)
    assert torch.equal(theirs.weight, w / 3)


def test_difference_brevitas_scale_is_a_constant_that_multiplies_the_gradient() -> None:
    w = 0.5 * centred_unit_filters()
    ours, theirs = BinaryConv2d(2, 4, 3, padding=1, bias=False), brevitas_conv(w, 0.5)
    ours.weight.data = w.clone()
    x = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(ours(x), theirs(x), **CLOSE)  # the RMS is 0.5 as well
    ours(x).square().sum().backward()
    theirs(x).square().sum().backward()
    torch.testing.assert_close(0.5 * ours.weight.grad, theirs.weight.grad)
    default = qnn.QuantLinear(2, 1, bias=False, weight_quant=SignedBinaryWeightPerTensorConst)
    assert float(default.quant_weight().scale) == pytest.approx(0.1)


def test_difference_brevitas_does_not_centre() -> None:
    w = torch.tensor([[0.25, 0.75]])
    theirs = qnn.QuantLinear(2, 1, bias=False, weight_quant=SignedBinaryWeightPerTensorConst)
    theirs.weight.data = w.clone()
    ours = BinaryLinear(2, 1, bias=False)
    ours.weight.data = w.clone()
    assert torch.equal(theirs.quant_weight().value.sign(), torch.tensor([[1.0, 1.0]]))
    assert torch.equal(ours.effective_weight(), w)  # mean 0.5, RMS 0.25


def test_difference_the_edges_of_the_sign() -> None:
    x = torch.tensor([-1.0, 1.0, -0.0, 0.0])
    (ours, our_grad), (theirs, their_grad) = (value_and_grad(f, x) for f in (BinaryActivation(), brevitas_sign()))
    assert ours.tolist() == [-1, 1, -1, 1]
    assert theirs.tolist() == [-1, 1, 1, 1]
    assert our_grad.tolist()[:2] == [0, 0]
    assert their_grad.tolist()[:2] == [-1, 0]  # its upstream gradient, passed


def test_difference_brevitas_sign_without_clamp_passes_every_gradient() -> None:
    x = torch.tensor([-3.0, 0.5, 3.0], requires_grad=True)
    (theirs,) = torch.autograd.grad(binary_sign_ste(x).sum(), [x])
    (ours,) = torch.autograd.grad(sign_ste(x).sum(), [x])
    assert theirs.tolist() == [1, 1, 1]
    assert ours.tolist() == [0, 1, 0]


def test_difference_brevitas_layers_cannot_be_vmapped() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.vmap(torch.func.grad(lambda v: brevitas_sign()(v).sum()))(x)
    assert torch.func.vmap(torch.func.grad(lambda v: sign_ste(v).sum()))(x).shape == (3, 4)
