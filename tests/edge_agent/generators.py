"""Small received generators and label logits, for tests of what devices learn from."""

import numpy as np
import torch

from models.generator import build_generator
from models.latents import Latents, prototype_of
from quant.pack import pack_state
from tests.edge_agent.scripted import FLEET, KEY
from wire.envelope import seal
from wire.headers import encode_model
from wire.ids import AGGREGATOR
from wire.messages import ModelHeader
from wire.tensors import Tensor, encode

__all__ = ["sealed_generator", "sealed_label_logits", "small_generator", "small_latents"]


def small_generator(classes: int, latent: int, *, noise: str = "paper", width: int = 4) -> dict[str, Tensor]:
    """Fresh weights, all labels as likely; labels weigh more than noise, as after training."""
    rng = torch.Generator().manual_seed(11)
    net = build_generator(classes, latent, noise_width=width, hidden=16, noise=noise, generator=rng)
    with torch.no_grad():
        net.fc1.weight[:, width:] *= 10
    return pack_state({**net.state_dict(), "labels": torch.full((classes,), 1 / classes)})


def generator_header(classes: int, latent: int, *, noise: str = "paper", width: int = 4) -> ModelHeader:
    return ModelHeader(
        round=1, prototype=prototype_of(noise), input_shape=(width,), classes=classes, latent=latent, recipe="fedgen"
    )


def small_latents(classes: int, latent: int, *, noise: str = "paper") -> Latents:
    """The generator as a device has it."""
    header = generator_header(classes, latent, noise=noise)
    return Latents.from_tensors(small_generator(classes, latent, noise=noise), header)


def sealed_generator(classes: int, latent: int) -> bytes:
    """The generator as it is published."""
    return _sealed(generator_header(classes, latent), small_generator(classes, latent))


def sealed_label_logits(classes: int, latent: int, logits: np.ndarray, name: str = "label-logits:mean") -> bytes:
    """The fleet's logits as they are published."""
    header = ModelHeader(
        round=1, prototype=name, input_shape=(classes,), classes=classes, latent=latent, recipe="feddistill"
    )
    return _sealed(header, {"label-logits": logits.astype(np.float32)})


def _sealed(header: ModelHeader, tensors: dict[str, Tensor]) -> bytes:
    payload = encode_model(header, encode(tensors))
    return seal(payload, key=KEY, kind="model", sender=AGGREGATOR, fleet=FLEET, round=1)
