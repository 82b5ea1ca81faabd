"""A small received generator, for tests of guided training."""

import torch

from models.generator import build_generator
from models.latents import Latents, prototype_of
from quant.pack import pack_state
from wire.messages import ModelHeader

__all__ = ["small_latents"]


def small_latents(classes: int, latent: int, *, noise: str = "paper", width: int = 4) -> Latents:
    """Fresh weights, all labels as likely; labels weigh more than noise, as after training."""
    rng = torch.Generator().manual_seed(11)
    net = build_generator(classes, latent, noise_width=width, hidden=16, noise=noise, generator=rng)  # type: ignore[arg-type]
    with torch.no_grad():
        net.fc1.weight[:, width:] *= 10
    tensors = pack_state({**net.state_dict(), "labels": torch.full((classes,), 1 / classes)})
    header = ModelHeader(
        round=1, prototype=prototype_of(noise), input_shape=(width,), classes=classes, latent=latent, recipe="fedgen"
    )
    return Latents.from_tensors(tensors, header)
