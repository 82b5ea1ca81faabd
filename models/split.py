"""A prototype as a module: extractor + predictor, and the latent between them.

    z = extractor(x)            (B, D)   x -> body -> adapter, if the body's own width is not D
    logits = predictor(z)       (B, C)

With one D for the whole fleet, one latent generator serves every prototype and predictors can be shared across
architectures. `models/roles.py` slices state dicts by these two roles.
"""

from __future__ import annotations

import torch
from torch import nn

from models.roles import ROLES, Role, merge_state, role_of, slice_state
from models.spec import PrototypeSpec
from quant.layers import Layers

__all__ = ["ROLES", "Extractor", "Prototype", "Role", "merge_state", "role_of", "slice_state"]


class Extractor(nn.Module):
    """An architecture's body and, if `latent` differs from its own width, a linear adapter to that width."""

    def __init__(self, body: nn.Module, width: int, layers: Layers, latent: int | None) -> None:
        super().__init__()
        self.body = body
        self.adapter: nn.Module | None = None
        if latent is not None and latent != width:
            self.adapter = layers.linear(width, latent)
        self.width = width if latent is None else latent

    def steps(self) -> tuple[nn.Module, ...]:
        """What `forward` applies, one after another."""
        return (self.body,) if self.adapter is None else (self.body, self.adapter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.body(x)
        return z if self.adapter is None else self.adapter(z)


class Prototype(nn.Module):
    """Extractor + predictor; the names in its state dict start with `extractor.` or `predictor.`."""

    def __init__(self, spec: PrototypeSpec, extractor: Extractor, predictor: nn.Module) -> None:
        super().__init__()
        self.spec = spec
        self.extractor = extractor
        self.predictor = predictor

    @property
    def latent(self) -> int:
        """D, the width of the latent between extractor and predictor."""
        return self.extractor.width

    @property
    def tokens(self) -> int | None:
        """The size of the vocabulary if the input is token ids (int64), None if it is float32."""
        return getattr(self.extractor.body, "tokens", None)

    def steps(self) -> tuple[nn.Module, ...]:
        """What `forward` applies, one after another."""
        return self.extractor, self.predictor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, C)."""
        logits: torch.Tensor = self.predictor(self.extractor(x))
        return logits

    def example_input(self, batch: int = 1, *, generator: torch.Generator | None = None) -> torch.Tensor:
        """A random input of the right shape and type, for export, warm-up and tests."""
        shape = (batch, *self.spec.input_shape)
        if self.tokens is None:
            return torch.randn(shape, generator=generator)
        return torch.randint(self.tokens, shape, generator=generator)
