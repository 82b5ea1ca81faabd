"""K FedGen CNNs, trained side by side: one matrix product per layer for all of them, and gradients by hand.

A single `cnn:fp32` (models/zoo/cnn.py) is so small that a step of it is mostly waiting between kernels. Stacked along
a first dimension, and with the samples of a batch along the last one, ten of them take a third of the time that ten
take one after another; a test holds the two against each other. Convolutions are products (patches.py).

    norm      y = gamma (x - m) / sqrt(v + 1e-5) + beta,   m and v over the last dimension, per model and channel

A bias in front of BatchNorm gets no gradient: it shifts the mean that is taken away. So it stays as it is.
Losses are soft targets t, one column per sample: with p = softmax(logits),  d loss / d logits = p sum(t) - t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fleet.experiments.fedgen.patches import Scratch, images_of, patches_of, samples_last

__all__ = ["Pull", "Stack", "Targets"]

EPS, MOMENTUM = 1e-5, 0.1  # BatchNorm's
_BODY = "extractor.body."
#: log-probabilities (K, C, columns) to targets of the same shape
Targets = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Pull:
    """FedProx: mu (w - w_received), and L2 decay."""

    received: Mapping[str, Tensor]  # without K: all models started from it
    mu: float
    decay: float = 0.0

    def towards(self, name: str, w: Tensor) -> Tensor:
        """What the gradient gains."""
        return (self.mu + self.decay) * w - self.mu * self.received[name]


@dataclass(slots=True)
class _Norm:
    """What the way back through convolution, norm and ReLU needs."""

    patches: Tensor
    before: Tensor  # what the norm got
    after: Tensor  # what the ReLU gave
    mean: Tensor
    inverse: Tensor  # 1 / sqrt(v + eps)


class Stack:
    """`tensors` are those of the prototype's state dict, each with K in front; stacks in turn may share `scratch`."""

    def __init__(self, tensors: dict[str, Tensor], scratch: Scratch | None = None) -> None:
        self.tensors = tensors
        self._scratch = scratch or Scratch()

    @classmethod
    def of(cls, states: Sequence[Mapping[str, Tensor]]) -> Stack:
        """Copies of `states`."""
        names = [name for name in states[0] if not name.endswith("num_batches_tracked")]
        return cls({name: torch.stack([state[name] for state in states]) for name in names})

    def __len__(self) -> int:
        return len(self.tensors["predictor.bias"])

    @torch.no_grad()
    def step(
        self, x: Tensor, targets: Targets, *, lr: Tensor, generated: Tensor | None = None, pull: Pull | None = None
    ) -> Tensor:
        """One step of SGD on images x (K, B, C, H, W), each model with its own `lr` (K,); its logits (K, C, B).

        `generated` latents (K, D, N) pass the predictor beside those of the images, and get no gradient.
        """
        first = self._block(samples_last(x), "1")
        second = self._block(first.after.view(*self._shape(x, first)), "2")
        flat = second.after.reshape(len(x), -1, x.shape[1])  # (K, 16 h w, B)
        z = self._linear(flat, _BODY + "fc")
        both = z if generated is None else torch.cat((z, generated), 2)
        logits = self._linear(both, "predictor")
        log_p = logits.log_softmax(1)
        wanted = targets(log_p)
        d_logits = log_p.exp_().mul_(wanted.sum(1, keepdim=True)).sub_(wanted)
        grads: dict[str, Tensor] = {}
        d_z = self._linear_back(d_logits, both, "predictor", grads)[..., : z.shape[2]]
        d_flat = self._linear_back(d_z.contiguous(), flat, _BODY + "fc", grads)
        d_patches = self._block_back(d_flat.view(second.after.shape), second, "2", grads, into=True)
        assert d_patches is not None
        d_first = images_of(d_patches, self._shape(x, first), self._scratch)
        self._block_back(d_first.view(first.after.shape), first, "1", grads, into=False)
        for name, grad in grads.items():
            if pull is not None:
                grad = grad.add_(pull.towards(name, self.tensors[name]))
            self.tensors[name].addcmul_(lr.view(-1, *[1] * (grad.ndim - 1)), grad, value=-1)
        return logits[..., : z.shape[2]]

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """(K, C, N) of images (K, N, C, H, W), with running statistics."""
        t, a = self.tensors, samples_last(x)
        for at in ("1", "2"):
            weight = t[f"{_BODY}conv{at}.weight"]
            scale = t[f"{_BODY}norm{at}.weight"] * (t[f"{_BODY}norm{at}.running_var"] + EPS).rsqrt()
            shift = (t[f"{_BODY}conv{at}.bias"] - t[f"{_BODY}norm{at}.running_mean"]) * scale
            h = torch.bmm(weight.flatten(2) * scale[..., None], patches_of(a, self._scratch))
            h = h.add_((shift + t[f"{_BODY}norm{at}.bias"])[..., None]).relu_()
            a = h.view(len(x), weight.shape[1], -(-a.shape[2] // 2), -(-a.shape[3] // 2), x.shape[1])
        z = self._linear(a.reshape(len(x), -1, x.shape[1]), _BODY + "fc")
        return self._linear(z, "predictor")

    def _shape(self, x: Tensor, first: _Norm) -> tuple[int, ...]:
        return (len(x), first.after.shape[1], -(-x.shape[3] // 2), -(-x.shape[4] // 2), x.shape[1])

    def _block(self, x: Tensor, at: str) -> _Norm:
        """Convolution, norm and ReLU; the running statistics follow."""
        t = self.tensors
        weight, patches = t[f"{_BODY}conv{at}.weight"].flatten(2), patches_of(x, self._scratch)
        count = patches.shape[2]
        h, after = (self._scratch(name + at, len(x), weight.shape[1], count) for name in ("h", "after"))
        torch.bmm(weight, patches, out=h)  # (K, C', n)
        mean = h.mean(2)
        variance = _dots(h, h, after).div_(count).sub_(mean * mean).clamp_(min=0)
        inverse = (variance + EPS).rsqrt()
        scale = t[f"{_BODY}norm{at}.weight"] * inverse
        torch.mul(h, scale[..., None], out=after).add_((t[f"{_BODY}norm{at}.bias"] - mean * scale)[..., None]).relu_()
        t[f"{_BODY}norm{at}.running_mean"].lerp_(mean + t[f"{_BODY}conv{at}.bias"], MOMENTUM)
        t[f"{_BODY}norm{at}.running_var"].lerp_(variance * (count / max(count - 1, 1)), MOMENTUM)
        return _Norm(patches, h, after, mean, inverse)

    def _block_back(
        self, d_after: Tensor, block: _Norm, at: str, grads: dict[str, Tensor], *, into: bool
    ) -> Tensor | None:
        """Gradients of the block's tensors; `into`: that of its patches too."""
        t, h, count = self.tensors, block.before, block.before.shape[2]
        dy = self._scratch("dy" + at, *h.shape)
        torch.ops.aten.threshold_backward.grad_input(d_after, block.after, 0, grad_input=dy)
        d_beta = dy.sum(2)
        d_gamma = block.inverse * (_dots(dy, h, block.after) - block.mean * d_beta)  # nobody reads `after` any more
        scale = t[f"{_BODY}norm{at}.weight"] * block.inverse
        slope = -scale * block.inverse * d_gamma / count
        level = -scale * d_beta / count - slope * block.mean
        dh = dy.mul_(scale[..., None]).addcmul_(h, slope[..., None]).add_(level[..., None])
        weight = t[f"{_BODY}conv{at}.weight"]
        # the wide operand first: half the time of the other order
        grads[f"{_BODY}conv{at}.weight"] = torch.bmm(block.patches, dh.mT).mT.reshape(weight.shape)
        grads[f"{_BODY}norm{at}.weight"], grads[f"{_BODY}norm{at}.bias"] = d_gamma, d_beta
        return torch.bmm(weight.flatten(2).mT, dh, out=self._scratch("dp", *block.patches.shape)) if into else None

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return torch.baddbmm(self.tensors[f"{name}.bias"][..., None], self.tensors[f"{name}.weight"], x)

    def _linear_back(self, d_out: Tensor, x: Tensor, name: str, grads: dict[str, Tensor]) -> Tensor:
        grads[f"{name}.weight"], grads[f"{name}.bias"] = torch.bmm(d_out, x.mT), d_out.sum(2)
        return torch.bmm(self.tensors[f"{name}.weight"].mT, d_out)


def _dots(a: Tensor, b: Tensor, scratch: Tensor) -> Tensor:
    """Of the rows of a and b; `scratch` is overwritten."""
    return torch.mul(a, b, out=scratch).sum(-1)
