"""The generator on a device: label and noise to latent, optimized for many small batches. NumPy only.

In evaluation mode BatchNorm is one more linear map, so it is folded into the first layer, and the one-hot label picks
a column of that layer. With W1 = [N | L], s = gamma / sqrt(var + 1e-5) and one row of L' per label:

    z = relu(N' eps + L'_y) W2^T + b2,     N' = s N,   L'_y = s (L_y + b1 - mean) + beta

`models/generator.py` is the module that the aggregator trains; the results agree up to float32 rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from wire.messages import ModelHeader
from wire.tensors import Tensor
from wire.tensors.packed import Packed

__all__ = ["LABELS", "PROTOTYPE", "Drawer", "Draws", "Latents", "prototype_of"]

#: The generator is published as a model of this architecture; its kind of noise takes the place of the precision.
PROTOTYPE = "generator"
LABELS = "labels"  # p(y), stored with the generator's own tensors
EPS = 1e-5  # torch's BatchNorm
BLOCK = 10  # steps whose noise is drawn at once
Floats = NDArray[np.float32]


def prototype_of(noise: str) -> str:
    """The name under which a generator with this noise is published."""
    return f"{PROTOTYPE}:{noise}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latents:
    """A received generator; all arrays are float32."""

    of_noise: Floats  # N'^T (d, H)
    of_label: Floats  # L' (C, H)
    out: Floats  # W2^T (H, D)
    bias: Floats  # b2 (D,)
    upto: NDArray[np.float64]  # p(y), cumulated (C,)
    normal: bool  # eps ~ N(0, I), else U[0, 1)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], header: ModelHeader) -> Latents:
        """From the tensors of a published generator."""
        t = {name: _floats(value) for name, value in tensors.items()}
        width = header.input_shape[0]
        try:
            return cls._folded(t, width, normal=header.prototype == prototype_of("paper"))
        except (KeyError, ValueError, IndexError) as error:
            raise ModelError(f"not a generator of {header.classes} classes and {width} noise: {error!r}") from None

    @classmethod
    def _folded(cls, t: Mapping[str, Floats], width: int, *, normal: bool) -> Latents:
        scale = t["norm.weight"] / np.sqrt(t["norm.running_var"] + np.float32(EPS))
        shift = (t["fc1.bias"] - t["norm.running_mean"]) * scale + t["norm.bias"]
        first = t["fc1.weight"] * scale[:, None]
        labels = np.cumsum(t[LABELS], dtype=np.float64)
        of_label = first[:, width:].T + shift
        if of_label.shape != (len(labels), len(shift)) or not labels[-1] > 0:
            raise ValueError(f"labels {labels.shape} for {of_label.shape}")
        return cls(
            of_noise=np.ascontiguousarray(first[:, :width].T),
            of_label=np.ascontiguousarray(of_label),
            out=np.ascontiguousarray(t["fc2.weight"].T),
            bias=t["fc2.bias"],
            upto=labels / labels[-1],
            normal=normal,
        )

    def draw_labels(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Labels from p(y)."""
        found = np.searchsorted(self.upto, rng.random(count), side="right")
        return found.astype(np.int64, copy=False)

    def draw_noise(self, count: int, rng: np.random.Generator) -> Floats:
        """Noise (count, d)."""
        shape = (count, len(self.of_noise))
        return rng.standard_normal(shape, np.float32) if self.normal else rng.random(shape, np.float32)

    def decode(self, noise: Floats, labels: NDArray[np.int64]) -> Floats:
        """z (B, D)."""
        hidden: Floats = noise @ self.of_noise
        hidden += self.of_label[labels]
        np.maximum(hidden, 0, out=hidden)
        z: Floats = hidden @ self.out
        z += self.bias
        return z


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The random draws of a few training steps at once: one call costs as much as for one step."""

    labels: NDArray[np.int64]  # (K, B_G), from p(y)
    noise: Floats  # (K, B_G, d), of latents for these labels
    mirrored: Floats  # (K, M, d), of latents for the labels of real samples; M is 0 if none are needed


class Drawer:
    """Labels and noise for one step after another; torch and NumPy draw the same from the same `rng`."""

    def __init__(self, latents: Latents, batch: int, *, mirrors: bool, rng: np.random.Generator) -> None:
        self._latents, self._batch, self._mirrors, self._rng = latents, batch, mirrors, rng
        self._draws: Draws | None = None
        self._next = 0

    def step(self, real: int) -> tuple[int, Draws]:
        """The draws of the next step, with a batch of `real` samples."""
        want = real if self._mirrors else 0
        if self._draws is None or self._next == BLOCK or want > self._draws.mirrored.shape[1]:
            self._draws, self._next = self._draw(want), 0
        self._next += 1
        return self._next - 1, self._draws

    def _draw(self, mirrored: int) -> Draws:
        latents, count, width = self._latents, BLOCK * self._batch, len(self._latents.of_noise)
        return Draws(
            labels=latents.draw_labels(count, self._rng).reshape(BLOCK, self._batch),
            noise=latents.draw_noise(count, self._rng).reshape(BLOCK, self._batch, width),
            mirrored=latents.draw_noise(BLOCK * mirrored, self._rng).reshape(BLOCK, mirrored, width),
        )


def _floats(value: Tensor) -> NDArray[Any]:
    array = value.dequantize() if isinstance(value, Packed) else value
    return array.astype(np.float32)
