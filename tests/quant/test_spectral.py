"""Convolutions in the frequency domain against torch's own: the numbers, the gradients, and where they are used."""

from __future__ import annotations

import io

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

import quant.spectral
from quant.binary import BinaryConv2d
from quant.layers import FloatLayers
from quant.spectral import CHUNK, Conv2d, convolve, pays

pytestmark = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch has no MKL here")

#: (B, c_in, c_out, H, W, k_h, k_w, padding)
SHAPES = [
    (3, 2, 4, 14, 14, 5, 5, (2, 2)),
    (2, 3, 2, 9, 12, 3, 5, (1, 0)),  # odd and even numbers of points, oblong images and filters
    (2, 1, 3, 7, 6, 5, 4, (4, 3)),  # outputs of padding alone
    (1, 2, 1, 5, 5, 5, 5, (0, 0)),  # one output
    (CHUNK + 5, 2, 3, 8, 8, 5, 5, (2, 2)),  # two parts
]


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shapes do not pay, but are quickly tested."""
    monkeypatch.setattr(quant.spectral, "pays", lambda *_: True)


def layer_of(c_in: int, c_out: int, kernel: tuple[int, int], padding: tuple[int, int], *, bias: bool = True) -> Conv2d:
    torch.manual_seed(1)
    return Conv2d(c_in, c_out, kernel, padding=padding, bias=bias)


def used(layer: nn.Module, x: Tensor) -> bool:
    """Whether the frequency domain was."""
    y = layer(x)
    return y.grad_fn is not None and "Spectral" in y.grad_fn.name()


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_answer_and_gradients_are_those_of_torch(
    shape: tuple[int, int, int, int, int, int, int, tuple[int, int]], *, channels_last: bool, bias: bool
) -> None:
    rows, c_in, c_out, height, width, k_h, k_w, padding = shape
    layer = layer_of(c_in, c_out, (k_h, k_w), padding, bias=bias)
    x = torch.randn(rows, c_in, height, width)
    if channels_last:
        x, layer = x.contiguous(memory_format=torch.channels_last), layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x.requires_grad_()
    assert used(layer, x)
    y = layer(x)
    exact = F.conv2d(x.double(), layer.weight.double(), None if layer.bias is None else layer.bias.double(), 1, padding)
    assert y.shape == exact.shape
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=3e-6)
    g = torch.randn(y.shape)
    wanted = [x, *layer.parameters()]
    for ours, own in zip(
        torch.autograd.grad(y, wanted, g), torch.autograd.grad(exact, wanted, g.double()), strict=True
    ):
        torch.testing.assert_close(ours, own, rtol=0, atol=3e-6 * max(1.0, own.abs().max().item()))


def test_it_is_nearer_to_the_exact_numbers_than_torch_is() -> None:
    layer, x = layer_of(32, 64, (5, 5), (2, 2)), torch.randn(32, 32, 14, 14)
    exact = F.conv2d(x.double(), layer.weight.double(), layer.bias.double(), 1, 2)  # type: ignore[union-attr]
    off, torchs = ((y.double() - exact).abs().max() for y in (layer(x), F.conv2d(x, layer.weight, layer.bias, 1, 2)))
    assert off < torchs


@pytest.mark.usefixtures("anywhere")
def test_the_same_bits_each_time_and_with_or_without_gradients() -> None:
    layer, x = layer_of(4, 8, (5, 5), (2, 2)), torch.randn(CHUNK + 1, 4, 8, 8)
    with torch.no_grad():
        plain = layer(x)
    assert torch.equal(layer(x), plain)
    assert torch.equal(layer(x), layer(x.contiguous(memory_format=torch.channels_last)))


@pytest.mark.usefixtures("anywhere")
def test_an_input_that_needs_no_gradient_gets_none() -> None:
    layer, x = layer_of(2, 3, (5, 5), (2, 2)), torch.randn(2, 2, 8, 8)
    layer(x).sum().backward()
    assert x.grad is None
    assert layer.weight.grad is not None
    only = x.clone().requires_grad_()
    layer.requires_grad_(requires_grad=False)
    layer(only).sum().backward()
    assert only.grad is not None


@pytest.mark.usefixtures("anywhere")
def test_its_gradient_has_none_of_its_own_and_says_so() -> None:
    layer, x = layer_of(2, 3, (5, 5), (2, 2)), torch.randn(2, 2, 8, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.usefixtures("anywhere")
def test_a_binary_convolution_takes_the_same_way() -> None:
    torch.manual_seed(1)
    layer = BinaryConv2d(3, 4, 5, padding=2)
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    assert used(layer, x)
    own = F.conv2d(x, layer.effective_weight(), layer.bias, 1, 2)
    torch.testing.assert_close(layer(x), own, rtol=0, atol=3e-6)
    g = torch.randn_like(own)
    for a, b in zip(*(torch.autograd.grad(y, [x, layer.weight], g) for y in (layer(x), own)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize(
    "other",
    [
        Conv2d(4, 4, 5, stride=2),
        Conv2d(4, 4, 5, dilation=2),
        Conv2d(4, 4, 5, groups=2),
        Conv2d(4, 4, 5, padding="same"),
        Conv2d(4, 4, 5, padding=2, padding_mode="reflect"),
    ],
    ids=["stride", "dilation", "groups", "same", "reflect"],
)
def test_other_convolutions_are_left_to_torch(other: Conv2d) -> None:
    plain = nn.Conv2d(
        4,
        4,
        5,
        stride=other.stride,  # type: ignore[arg-type]
        dilation=other.dilation,  # type: ignore[arg-type]
        groups=other.groups,
        padding=other.padding,  # type: ignore[arg-type]
        padding_mode=other.padding_mode,
    )
    plain.load_state_dict(other.state_dict())
    x = torch.randn(2, 4, 12, 12)
    assert not used(other, x)
    assert torch.equal(other(x), plain(x))


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize(
    "x", [torch.randn(2, 8, 8), torch.randn(1, 2, 8, 8, dtype=torch.float64)], ids=["3d", "double"]
)
def test_other_inputs_are_left_to_torch(x: Tensor) -> None:
    layer = layer_of(2, 3, (5, 5), (2, 2)).to(x.dtype)
    assert not used(layer, x)
    assert torch.equal(layer(x), F.conv2d(x, layer.weight, layer.bias, 1, 2))


@pytest.mark.usefixtures("anywhere")
def test_transforms_of_torch_func_see_an_operation_that_they_know() -> None:
    layer, x = layer_of(2, 3, (5, 5), (2, 2)), torch.randn(4, 1, 2, 8, 8)
    params = dict(layer.named_parameters())
    each = torch.func.vmap(lambda one: functional_call(layer, params, (one,)))(x)
    torch.testing.assert_close(each, torch.stack([layer(one) for one in x]), rtol=0, atol=3e-6)
    loss = torch.func.grad(lambda p: functional_call(layer, p, (x[0],)).sum())(params)
    layer(x[0]).sum().backward()
    torch.testing.assert_close(loss["weight"], layer.weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("anywhere")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of this exporter, which ours uses
def test_an_export_has_one_convolution() -> None:
    file = io.BytesIO()
    layer = layer_of(2, 3, (5, 5), (2, 2)).eval()
    torch.onnx.export(layer, (torch.randn(1, 2, 8, 8),), file, dynamo=False)  # type: ignore[arg-type]
    assert [node.op_type for node in onnx.load_from_string(file.getvalue()).graph.node] == ["Conv"]


@pytest.mark.parametrize(
    ("rows", "c_in", "c_out", "size", "kernel", "padding", "better"),
    [
        (32, 32, 64, 14, 5, 2, True),  # McMahan's second
        (2, 32, 64, 14, 5, 2, False),  # few samples: the filters' transform is for all of them
        (32, 1, 32, 28, 5, 2, False),  # McMahan's first: most would be transforms
        (32, 64, 64, 16, 7, 3, True),
        (32, 16, 16, 32, 3, 1, False),  # a ResNet's
        (32, 256, 256, 8, 3, 1, False),  # a VGG's
        (0, 32, 64, 14, 5, 2, False),
        (32, 32, 64, 3, 5, 0, False),  # a filter larger than the image: torch says what is wrong
    ],
)
def test_it_is_used_where_it_was_measured_to_pay(
    rows: int, c_in: int, c_out: int, size: int, kernel: int, padding: int, *, better: bool
) -> None:
    assert pays((rows, c_in, size, size), (c_out, c_in, kernel, kernel), (padding, padding)) is better


def test_the_layers_of_architectures_use_it_by_that_rule() -> None:
    layer = FloatLayers().conv2d(32, 64, 5, padding=2, bias=True)
    assert used(layer, torch.randn(32, 32, 14, 14))
    assert not used(layer, torch.randn(2, 32, 14, 14))
    assert isinstance(layer, nn.Conv2d)
    with pytest.raises(RuntimeError, match="Kernel size"):
        convolve(Conv2d(2, 2, 5), torch.randn(1, 2, 3, 3), torch.randn(2, 2, 5, 5))
