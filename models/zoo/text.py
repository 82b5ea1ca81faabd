"""A small text classifier on hashed tokens: embedding, mean over the words, one hidden layer.

    z = act(W mean_{l: id_l != 0} E[id_l] + b)      id 0 is padding

It is a bag of words, as in fastText (Joulin et al. 2016, arXiv:1607.01759), with a hidden layer. The embedding stays
float in every precision.
"""

from __future__ import annotations

import torch
from torch import nn

from models.zoo import TEXT_BUCKETS
from models.zoo.common import sequence_length
from quant.layers import Layers

__all__ = ["BagOfWords", "text"]

PADDING = 0


class BagOfWords(nn.Module):
    """Token ids (B, L), int64, below `tokens` -> latent (B, width)."""

    def __init__(self, layers: Layers, tokens: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.embedding = nn.Embedding(tokens, embedding, padding_idx=PADDING)
        self.fc = layers.linear(embedding, hidden)
        self.act = layers.activation()
        self.width = hidden

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded = self.embedding(ids)  # (B, L, E)
        there = (ids != PADDING).unsqueeze(-1).to(embedded.dtype)  # (B, L, 1)
        mean = (embedded * there).sum(1) / there.sum(1).clamp(min=1.0)  # (B, E); an empty text is the zero vector
        z: torch.Tensor = self.act(self.fc(mean))
        return z


def text(
    layers: Layers, input_shape: tuple[int, ...], tokens: int = TEXT_BUCKETS, embedding: int = 64, hidden: int = 64
) -> nn.Module:
    """The bag-of-words classifier; it fits texts of any length, so `input_shape` is only checked for its form."""
    sequence_length("text", input_shape)
    return BagOfWords(layers, tokens, embedding, hidden)
