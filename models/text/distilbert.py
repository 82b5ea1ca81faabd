"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108) as a prototype, with weights from a local folder.

Token ids (B, L) with padding id 0 -> the last hidden state of [CLS], the first position (B, dim). A block is

    y = norm(x + attention(x));   block(x) = norm(y + W2 gelu(W1 y))
    attention(x) = Wo concat_h softmax(q_h k_h^T / sqrt(d)) v_h         padded positions are masked in the softmax

Linear layers have the prototype's precision; embeddings and norms stay float, and of the activations only the one
inside the feed-forward pair is quantized. Names are those of the published checkpoint. Nothing is ever downloaded.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch
from torch import nn

from core.errors import ConfigError
from models.text.distilbert_files import DistilBertConfig, read_config, read_weights
from models.zoo.common import or_quantized, sequence_length
from quant.layers import FloatLayers, Layers

__all__ = ["FOLDER", "DistilBert", "distilbert"]

FOLDER = "EDGESTILL_DISTILBERT"  # the environment variable with the folder
PADDING = 0
EPS = 1e-12  # of every norm in the checkpoint


class Embeddings(nn.Module):
    """Word + position, normalized."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.dim, padding_idx=PADDING)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.dim)
        self.LayerNorm = nn.LayerNorm(config.dim, eps=EPS)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.word_embeddings(ids) + self.position_embeddings.weight[: ids.shape[1]]
        embedded: torch.Tensor = self.dropout(self.LayerNorm(x))
        return embedded


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, layers: Layers, config: DistilBertConfig) -> None:
        super().__init__()
        self.heads = config.n_heads
        self.q_lin = layers.linear(config.dim, config.dim)
        self.k_lin = layers.linear(config.dim, config.dim)
        self.v_lin = layers.linear(config.dim, config.dim)
        self.out_lin = layers.linear(config.dim, config.dim)
        self.dropout = nn.Dropout(config.attention_dropout)

    def forward(self, x: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        q, k, v = (self._split(lin(x)) for lin in (self.q_lin, self.k_lin, self.v_lin))  # (B, H, L, d)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, L, L)
        # the smallest float, not -inf: a text of only padding would give NaN
        weights = scores.masked_fill(~there, torch.finfo(scores.dtype).min).softmax(-1)
        out: torch.Tensor = self.out_lin((self.dropout(weights) @ v).transpose(1, 2).flatten(2))
        return out

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        parts: torch.Tensor = x.unflatten(-1, (self.heads, -1))
        return parts.transpose(1, 2)


class FeedForward(nn.Module):
    """The linear pair around the activation."""

    def __init__(self, layers: Layers, config: DistilBertConfig) -> None:
        super().__init__()
        self.lin1 = layers.linear(config.dim, config.hidden_dim)
        self.activation = or_quantized(layers, nn.GELU() if config.activation == "gelu" else nn.ReLU())
        self.lin2 = layers.linear(config.hidden_dim, config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.dropout(self.lin2(self.activation(self.lin1(x))))
        return out


class Block(nn.Module):
    """Attention and feed-forward, each added to its input and normalized."""

    def __init__(self, layers: Layers, config: DistilBertConfig) -> None:
        super().__init__()
        self.attention = Attention(layers, config)
        self.sa_layer_norm = nn.LayerNorm(config.dim, eps=EPS)
        self.ffn = FeedForward(layers, config)
        self.output_layer_norm = nn.LayerNorm(config.dim, eps=EPS)

    def forward(self, x: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        x = self.sa_layer_norm(x + self.attention(x, there))
        out: torch.Tensor = self.output_layer_norm(x + self.ffn(x))
        return out


class Transformer(nn.Module):
    """The blocks, one after the other."""

    def __init__(self, layers: Layers, config: DistilBertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Block(layers, config) for _ in range(config.n_layers))

    def forward(self, x: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        for block in self.layer:
            x = block(x, there)
        return x


class DistilBert(nn.Module):
    """The network, with random weights."""

    def __init__(self, layers: Layers, config: DistilBertConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.transformer = Transformer(layers, config)
        self.tokens = config.vocab_size
        self.width = config.dim

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        there = (ids != PADDING)[:, None, None, :]  # (B, 1, 1, L): attention mask over keys
        hidden = self.transformer(self.embeddings(ids), there)  # (B, L, dim)
        z: torch.Tensor = hidden[:, 0]
        return z


def distilbert(layers: Layers, input_shape: tuple[int, ...], folder: str | os.PathLike[str] | None = None) -> nn.Module:
    """DistilBERT with the weights of `folder`, or of the folder given by EDGESTILL_DISTILBERT."""
    length = sequence_length("distilbert", input_shape)
    folder = folder or os.environ.get(FOLDER)
    if not folder:
        raise ConfigError(
            f"distilbert: set {FOLDER} to a folder with config.json and model.safetensors; nothing is downloaded"
        )
    config = read_config(Path(folder))
    if length > config.max_position_embeddings:
        raise ConfigError(f"distilbert: texts of {length} tokens; {folder} takes {config.max_position_embeddings}")
    model = DistilBert(layers, config)
    with torch.device("meta"):  # names and shapes of a checkpoint's tensors, without allocating them
        shapes = {name: tuple(p.shape) for name, p in DistilBert(FloatLayers(), config).named_parameters()}
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in read_weights(Path(folder), shapes):
            parameters[name].copy_(weight)
    return model
