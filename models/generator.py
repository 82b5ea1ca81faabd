"""The latent generator of FedGen (Zhu et al. 2021, arXiv:2105.10056): label + noise -> latent z.

    z = G(eps, y) = W2 relu(BN(W1 [eps, onehot(y)] + b1)) + b2          (B, D), no activation at the end

    eps ~ N(0, I)          noise "paper": section 4.2
    eps ~ U[0, 1)^d        noise "reference": the authors' code

At MNIST sizes (d = 32, 10 classes, 256 hidden, D = 32) it has 19,744 parameters. It is trained on the aggregator; the
devices draw from it with `sample`.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import nn
from torch.nn import functional as F

from core.errors import ConfigError
from models.seeding import seeded

__all__ = ["LatentGenerator", "Noise", "build_generator"]

Noise = Literal["paper", "reference"]


class LatentGenerator(nn.Module):
    """G(eps, y); `noise` says how eps is drawn."""

    def __init__(
        self, classes: int, latent: int, *, noise_width: int = 32, hidden: int = 256, noise: Noise = "paper"
    ) -> None:
        super().__init__()
        if noise not in get_args(Noise):
            raise ConfigError(f"unknown generator noise {noise!r}; known: {' '.join(get_args(Noise))}")
        self.classes, self.latent, self.noise_width, self.noise = classes, latent, noise_width, noise
        self.fc1 = nn.Linear(noise_width + classes, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.fc2 = nn.Linear(hidden, latent)

    def draw(self, count: int, *, generator: torch.Generator | None = None) -> torch.Tensor:
        """`count` rows of noise (count, d) on the CPU, so that a seed gives the same values on every device."""
        if self.noise == "paper":
            return torch.randn(count, self.noise_width, generator=generator)
        return torch.rand(count, self.noise_width, generator=generator)

    def decode(self, noise: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """z (B, D) of given noise (B, d) and labels (B,)."""
        onehot = F.one_hot(labels, self.classes).to(noise.dtype)
        hidden = F.relu(self.norm(self.fc1(torch.cat((noise, onehot), 1))))
        z: torch.Tensor = self.fc2(hidden)
        return z

    def forward(
        self, labels: torch.Tensor, *, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """z (B, D) and the noise (B, d) it was generated from: the diversity loss compares the two."""
        noise = self.draw(len(labels), generator=generator).to(labels.device)
        return self.decode(noise, labels), noise

    @torch.no_grad()
    def sample(self, labels: torch.Tensor, *, generator: torch.Generator) -> torch.Tensor:
        """z (B, D) for training on: each row depends only on its own noise and label, and no state is changed.

        BatchNorm uses its running statistics whatever the mode of the module, and does not update them.
        """
        training = self.training
        self.eval()
        try:
            return self(labels, generator=generator)[0]  # type: ignore[no-any-return]
        finally:
            self.train(training)


def build_generator(
    classes: int,
    latent: int,
    *,
    noise_width: int = 32,
    hidden: int = 256,
    noise: Noise = "paper",
    generator: torch.Generator | None = None,
) -> LatentGenerator:
    """A generator with seeded initial weights; see `models.build.build`."""
    with seeded(generator):
        return LatentGenerator(classes, latent, noise_width=noise_width, hidden=hidden, noise=noise)
