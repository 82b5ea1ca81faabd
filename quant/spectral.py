"""Convolutions with large filters, as products in the frequency domain: half the time of a 5x5 one.

A convolution of stride 1 is a product per frequency. With the discrete Fourier transform D of N_h x N_w points, filters
u of c_out x c_in x k_h x k_w and zero padding p, where N = H + p keeps wrap-around out of every output:

    Y_f = X_f U_f^T,             y = D^-1 Y + b        with X = D x and U = conj(D u), per frequency f
    dX_f = G_f conj(U_f),        dU_f = G_f^T conj(X_f),        db = sum_b G_0          with G = D g, g = dL/dy

25 multiplications per output become about 5 (Mathieu, Henaff, LeCun 2014, arXiv:1312.5851). Such short transforms are
products with a small matrix, first along the height, where half of the frequencies suffice, then along the width; real
and imaginary parts are separate planes. So everything is a matrix product, and runs at that speed. The results equal
torch's up to float32 rounding, with a smaller error, because fewer terms are summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["Conv2d", "convolve", "pays", "torchs_own"]

#: Factor of saved multiplications from which the frequency domain is faster: its products are smaller.
WORTH = 3.0
#: Samples at a time: their frequencies then stay in the cache.
CHUNK = 32
_HAS_MKL = torch.backends.mkl.is_available()
_off: ContextVar[bool] = ContextVar("spectral convolutions are off", default=False)


@contextmanager
def torchs_own() -> Iterator[None]:
    """Within this context, convolutions are torch's own: the plain path."""
    token = _off.set(True)
    try:
        yield
    finally:
        _off.reset(token)


class Conv2d(nn.Conv2d):
    """torch's convolution, computed in the frequency domain if that is faster."""

    def forward(self, x: Tensor) -> Tensor:
        return convolve(self, x, self.weight)


def convolve(layer: nn.Conv2d, x: Tensor, weight: Tensor) -> Tensor:
    """`layer`, with `weight` for its weight, of x (B, c_in, H, W)."""
    if _is_plain(layer) and _is_numbers(x) and not _off.get() and pays(x.shape, weight.shape, layer.padding):
        return _Spectral.apply(x, weight, layer.bias, layer.padding)  # type: ignore[no-any-return]
    return layer._conv_forward(x, weight, layer.bias)  # type: ignore[no-any-return]


def _is_plain(layer: nn.Conv2d) -> bool:
    plain = layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    return plain and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def _is_numbers(x: object) -> bool:
    """Whether x is float32 on the CPU: exporters and torch.func's transforms need torch's own operation."""
    if not _HAS_MKL:  # MKL makes many small products fast; not measured without it
        return False
    if not isinstance(x, Tensor):  # a proxy of torch.fx
        return False
    if torch._C._is_tracing() or torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return False
    return x.ndim == 4 and x.dtype == torch.float32 and x.device.type == "cpu"


@lru_cache(maxsize=256)
def pays(x: tuple[int, ...], weight: tuple[int, ...], padding: tuple[int, int]) -> bool:
    """Whether the frequency domain is faster for images and filters of these shapes.

    A fixed rule, not a measurement, so that equal work gives equal bits everywhere.
    """
    rows, c_in, height, width = x
    c_out, _, k_h, k_w = weight
    n_h, n_w = height + padding[0], width + padding[1]
    out_h, out_w = n_h + padding[0] - k_h + 1, n_w + padding[1] - k_w + 1
    if min(rows, out_h, out_w) < 1:
        return False
    halves = n_h // 2 + 1
    plain = 3 * c_in * c_out * k_h * k_w * out_h * out_w  # of the answer and of both gradients
    products = 3 * 4 * c_in * c_out * halves * n_w
    transforms = 2 * (c_in + c_out) * 2 * halves * width * (height + 2 * n_w)
    filters = 2 * c_in * c_out * k_h * k_w * 2 * halves * n_w / rows
    return plain > WORTH * (products + transforms + filters)


class _Spectral(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int]) -> Tensor:
        c_out, c_in, *kernel = weight.shape
        plan = _plan(x.shape[2:], weight.shape[2:], padding)
        filters = torch.mm(plan.filters.to, weight.permute(2, 3, 0, 1).reshape(-1, c_out * c_in))
        filters = filters.view(2, -1, c_out, c_in)
        out = torch.empty(len(x), c_out, *plan.out, memory_format=torch.channels_last)
        seen = []
        for part, answer in zip(x.split(CHUNK), out.split(CHUNK), strict=True):
            seen.append(_to(part, plan.x))  # (2, bins, B, c_in)
            y = _back(_product(seen[-1], filters.transpose(2, 3)), plan.y)
            if bias is None:
                answer.copy_(y)
            else:
                torch.add(y, bias[:, None, None], out=answer)
            if not any(ctx.needs_input_grad):
                seen.clear()
        ctx.save_for_backward(filters, *seen)
        ctx.plan, ctx.kernel = plan, kernel
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        filters, *seen = ctx.saved_tensors
        plan: _Plan = ctx.plan
        _, bins, c_out, c_in = filters.shape
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        dx = torch.empty(len(g), c_in, *plan.size, memory_format=torch.channels_last) if of_x else None
        total = torch.zeros(2, bins, c_out, c_in) if of_weight and len(seen) > 1 else None
        db = torch.zeros(c_out) if of_bias else None
        for at, (part, was) in enumerate(zip(g.split(CHUNK), seen, strict=True)):
            spectrum = _to(part, plan.y)  # (2, bins, B, c_out)
            if dx is not None:
                dx[at * CHUNK : (at + 1) * CHUNK].copy_(_back(_product(spectrum, filters, conjugate=True), plan.x))
            if of_weight:
                total = _product(spectrum.transpose(2, 3), was, conjugate=True, total=total)
            if db is not None:
                db += spectrum[0, 0].sum(0)
        dw = None
        if of_weight:
            assert total is not None
            dw = torch.mm(plan.filters.back, total.view(-1, c_out * c_in)).view(*ctx.kernel, c_out, c_in)
            dw = dw.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)
        return dx, dw, db, None


def _product(left: Tensor, right: Tensor, *, conjugate: bool = False, total: Tensor | None = None) -> Tensor:
    """left right or left conj(right), added to `total`: complex matrices as planes (2, bins, rows, columns).

    (a + ib)(u + iv) = au - bv + i (bu + av),     (a + ib)(u - iv) = au + bv + i (bu - av)
    """
    (a, b), (u, v) = left, right
    sign = 1 if conjugate else -1
    if total is None:
        total = torch.empty(2, *a.shape[:2], u.shape[2])
        torch.bmm(a, u, out=total[0])
        torch.bmm(b, u, out=total[1])
    else:
        total[0].baddbmm_(a, u)
        total[1].baddbmm_(b, u)
    total[0].baddbmm_(b, v, alpha=sign)
    total[1].baddbmm_(a, v, alpha=-sign)
    return total


def _to(images: Tensor, axes: _Axes) -> Tensor:
    """(B, C, H, W) -> (2, bins, B, C): the frequencies of every channel, real and imaginary parts."""
    rows, channels, height, width = images.shape
    z = torch.mm(axes.tall.to, images.permute(2, 3, 0, 1).reshape(height, -1))  # (2 K, W B C)
    z = z.view(-1, 2 * width, rows * channels)
    out = torch.empty(2, len(z), axes.wide.to.shape[1], rows * channels)
    for plane, matrix in zip(out, axes.wide.to, strict=True):
        torch.bmm(matrix.expand(len(z), -1, -1), z, out=plane)
    return out.view(2, -1, rows, channels)


def _back(spectrum: Tensor, axes: _Axes) -> Tensor:
    """(2, bins, B, C) -> (B, C, H, W), in memory (H, W, B, C)."""
    _, _, rows, channels = spectrum.shape
    height, parts = axes.tall.back.shape
    halves = parts // 2
    real, imaginary = spectrum.view(2, halves, -1, rows * channels)
    z = torch.bmm(axes.wide.back[0].expand(halves, -1, -1), real)  # (K, 2 W, B C)
    z.baddbmm_(axes.wide.back[1].expand(halves, -1, -1), imaginary)
    return torch.mm(axes.tall.back, z.view(parts, -1)).view(height, -1, rows, channels).permute(2, 3, 0, 1)


class _Axis(NamedTuple):
    """A transform along one axis, as matrices."""

    to: Tensor  # from positions to frequencies
    back: Tensor  # its inverse, at those positions


class _Axes(NamedTuple):
    tall: _Axis
    wide: _Axis


class _Plan(NamedTuple):
    """The transforms of images of one size, for filters of one size."""

    size: tuple[int, int]  # of the image
    out: tuple[int, int]  # of the answer
    x: _Axes
    y: _Axes
    filters: _Axis  # both axes at once, as they are short


@lru_cache(maxsize=64)
def _plan(size: tuple[int, int], kernel: tuple[int, int], padding: tuple[int, int]) -> _Plan:
    n_h, n_w = size[0] + padding[0], size[1] + padding[1]
    halves = n_h // 2 + 1
    out = (n_h + padding[0] - kernel[0] + 1, n_w + padding[1] - kernel[1] + 1)
    weights = torch.full((halves,), 2 / (n_h * n_w), dtype=torch.float64)  # a frequency, and its mirror image
    weights[0] /= 2
    if n_h % 2 == 0:
        weights[-1] /= 2

    def axes(first: tuple[int, int], count: tuple[int, int]) -> _Axes:
        return _Axes(
            _tall(_waves(n_h, halves, first[0], count[0]), weights), _wide(_waves(n_w, n_w, first[1], count[1]))
        )

    both = _filters(_waves(n_h, halves, 0, kernel[0]), _waves(n_w, n_w, 0, kernel[1]))  # (2, K, N, k_h k_w)
    filters = _Axis(_single(both.flatten(0, 2)), _single((both * weights[:, None, None]).flatten(0, 2).t()))
    return _Plan(size, out, axes((0, 0), size), axes((-padding[0], -padding[1]), out), filters)


def _waves(points: int, frequencies: int, first: int, count: int) -> Tensor:
    """(2, frequencies, count): the real and imaginary parts of e^(-2 pi i f n / points), n from `first` on."""
    turns = torch.arange(frequencies)[:, None] * torch.arange(first, first + count) % points
    angles = turns.double() * (2 * math.pi / points)
    return torch.stack([angles.cos(), -angles.sin()])


def _tall(waves: Tensor, weights: Tensor) -> _Axis:
    """Transform of real numbers, for which half of the frequencies suffice; the rows are (frequency, part)."""
    to = waves.transpose(0, 1)  # (K, 2, H)
    return _Axis(_single(to.flatten(0, 1)), _single((to * weights[:, None, None]).flatten(0, 1).t()))


def _wide(waves: Tensor) -> _Axis:
    """Transform of complex numbers with consecutive parts: (part, frequency, (part, W))."""
    real, imaginary = waves
    to = torch.stack([torch.cat([real, -imaginary], 1), torch.cat([imaginary, real], 1)])
    return _Axis(_single(to), _single(to.transpose(1, 2)))


def _filters(tall: Tensor, wide: Tensor) -> Tensor:
    """(part, K, N, k_h k_w): the conjugate of the product of both axes' waves."""
    (a, b), (u, v) = tall, wide
    real = torch.einsum("ih,jw->ijhw", a, u) - torch.einsum("ih,jw->ijhw", b, v)
    imaginary = torch.einsum("ih,jw->ijhw", a, v) + torch.einsum("ih,jw->ijhw", b, u)
    return torch.stack([real, -imaginary]).flatten(3)


def _single(matrix: Tensor) -> Tensor:
    return matrix.float().contiguous()
