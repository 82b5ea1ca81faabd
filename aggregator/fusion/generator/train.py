"""FedGen's generator, trained from the devices' predictors alone (Zhu et al. 2021, arXiv:2105.10056).

The predictors of all prototypes map the same latent (D) to the same classes (C), so K of them are one matrix (K C, D),
and one product evaluates all of them. With theta_k the predictor of device k, c_k(y) its label counts, r_k >= 0 its
trust (1 by default) and z = G(eps, y):

    mean-logits    CE(sum_k s_k theta_k(z), y),   s_k = r_k / sum_j r_j                        Eq. 4
    per-teacher    sum_k w_k(y) CE(theta_k(z), y),   w_k(y) = r_k c_k(y) / sum_j r_j c_j(y)     the authors' code

    y ~ p(y), p(y) ∝ sum_k r_k c_k(y)       "counts"; "uniform": over every y that some trusted device has

    diversity = exp(-mean_ij(|eps_i - eps_j|^2 |z_i - z_j|)),   both differences as means over their coordinates,
                                                                 over all ordered pairs, i = j included

The mean of linear predictors is a linear predictor: the first loss costs as much for a thousand devices as for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from aggregator.fusion.numerics.adam import Adam
from aggregator.recipes.generator import Generation
from core.errors import RoundError
from models.generator import LatentGenerator

__all__ = ["Generated", "Teachers", "diversity_loss", "label_shares", "teacher_shares", "train_generator"]


@dataclass(frozen=True, slots=True)
class Teachers:
    """K predictors as one."""

    weight: Tensor  # (K, C, D)
    bias: Tensor  # (K, C)

    @classmethod
    def stack(cls, states: Sequence[Mapping[str, Tensor]]) -> Teachers:
        """From states or slices of them: only `predictor.weight` and `predictor.bias` are used."""
        if not states:
            raise RoundError("no predictors to teach the generator")
        shapes = {tuple(state["predictor.weight"].shape) for state in states}
        if len(shapes) > 1:
            raise RoundError(f"predictors of {sorted(shapes)}: one latent width for the whole fleet is needed")
        weight = torch.stack([state["predictor.weight"].float() for state in states])
        return cls(weight, torch.stack([state["predictor.bias"].float() for state in states]))

    def __len__(self) -> int:
        return len(self.weight)

    def logits(self, z: Tensor) -> Tensor:
        """(K, B, C) of latents (B, D)."""
        count, classes, width = self.weight.shape
        flat = torch.addmm(self.bias.reshape(-1), z, self.weight.reshape(-1, width).T)  # (B, K C)
        return flat.reshape(len(z), count, classes).transpose(0, 1)

    def to(self, device: torch.device) -> Teachers:
        """The same predictors on `device`."""
        return Teachers(self.weight.to(device), self.bias.to(device))

    def mean(self, shares: Tensor) -> Teachers:
        """The single teacher whose logits are the mean of theirs, weighted by `shares` (K,), which sum to 1."""
        return Teachers(
            torch.einsum("k,kcd->cd", shares, self.weight)[None], torch.einsum("k,kc->c", shares, self.bias)[None]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The result of a round of generator training; means over its steps."""

    teacher_loss: float
    diversity_loss: float
    labels: Tensor  # p(y), also used by the devices


def label_shares(counts: Tensor, config: Generation, trust: Tensor | None = None) -> Tensor:
    """p(y) (C,) from label counts (K, C); zero for a label that no trusted device has."""
    have = counts if trust is None else counts * trust[:, None]
    total = have.sum(0)
    if not float(total.sum()) > 0:
        raise RoundError("no device that is trusted reports any label: the generator has nothing to draw from")
    if config.labels == "uniform":
        total = (total > 0).to(total.dtype)
    return total / total.sum()


def teacher_shares(counts: Tensor, config: Generation, trust: Tensor | None = None) -> Tensor:
    """w_k(y) (K, C): each column sums to 1."""
    have = counts + config.prior
    if trust is not None:
        have = have * trust[:, None]
    total = have.sum(0, keepdim=True)
    return torch.where(total > 0, have / total.clamp(min=1e-30), torch.full_like(have, 1 / len(have)))


def diversity_loss(noise: Tensor, z: Tensor) -> Tensor:
    """exp(-mean(dN dZ)) over all pairs of rows, independent of labels, as in the authors' code."""
    between_noise = (noise[:, None] - noise[None]).square().mean(2)  # (B, B)
    between_z = (z[:, None] - z[None]).abs().mean(2)
    return torch.exp(-(between_noise * between_z).mean())


def train_generator(
    generator: LatentGenerator,
    adam: Adam,
    teachers: Teachers,
    counts: Tensor,
    config: Generation,
    *,
    round_number: int,
    rng: torch.Generator,
    trust: Tensor | None = None,
) -> Generated:
    """Train `generator` in place for round `round_number`, continuing from `adam`, on the device where both are.

    Labels and noise are drawn on the CPU, and moved. `counts` (K, C) are the devices' label counts, `trust` (K,) the
    trust in each: 0 excludes it from the labels and from the loss.
    """
    counts = counts.float()
    labels = label_shares(counts, config, trust)
    teachers, weights = _weighed(teachers, counts, config, trust)
    params = list(generator.parameters())
    device = params[0].device
    teachers, weights = teachers.to(device), None if weights is None else weights.to(device)
    lr, batch = config.lr_at(round_number), config.batch_size
    # as tensors: no synchronization at every step
    teacher_total, diversity_total = torch.zeros((), device=device), torch.zeros((), device=device)
    generator.train()
    everything = torch.multinomial(labels, config.steps * batch, replacement=True, generator=rng).to(device)
    for drawn in everything.split(batch):
        z, noise = generator(drawn, generator=rng)
        taught = _teacher_loss(teachers, z, drawn, weights)
        diverse = diversity_loss(noise, z) if config.diversity else torch.zeros((), device=device)
        grads = torch.autograd.grad(taught + config.diversity * diverse, params)
        adam.step(params, grads, lr=lr, weight_decay=config.weight_decay)
        teacher_total += taught.detach()
        diversity_total += diverse.detach()
    generator.eval()
    return Generated(
        teacher_loss=float(teacher_total) / config.steps,
        diversity_loss=float(diversity_total) / config.steps,
        labels=labels,
    )


def _weighed(
    teachers: Teachers, counts: Tensor, config: Generation, trust: Tensor | None
) -> tuple[Teachers, Tensor | None]:
    """The one mean teacher (Eq. 4), or all of them and w_k(y)."""
    if config.loss != "mean-logits":
        return teachers, teacher_shares(counts, config, trust)
    shares = torch.ones(len(teachers)) if trust is None else trust
    return teachers.mean(shares / shares.sum()), None


def _teacher_loss(teachers: Teachers, z: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """sum_k mean_b(w_k(y_b) CE(theta_k(z_b), y_b)); without weights there is one teacher."""
    logits = teachers.logits(z)  # (K, B, C)
    losses = F.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)), reduction="none")
    if weights is None:
        return losses.mean()
    return (losses * weights[:, labels].flatten()).sum() / len(labels)
