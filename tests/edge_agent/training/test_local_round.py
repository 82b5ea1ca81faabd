"""A device's work: what goes up is what the device has."""

import pytest
import torch

from core.errors import ModelError
from edge_agent.training.local_round import local_update
from edge_agent.training.params import LocalTraining
from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype
from quant.pack import load_packed, pack_state
from quant.precision import parse_precision
from wire.tensors import Packed, decode, encode

HOW = LocalTraining(lr=0.05, batch_size=8, epochs=1, momentum=0.9)


def prototype(precision: str, seed: int = 0, arch: str = "cnn") -> Prototype:
    spec = PrototypeSpec(arch, parse_precision(precision), (1, 8, 8), 4, 8)
    return build(spec, generator=torch.Generator().manual_seed(seed))


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(24, 1, 8, 8, generator=generator), torch.randint(4, (24,), generator=generator)


def update(model: Prototype, published: bytes, floats: str = "fp16") -> dict:
    generator = torch.Generator().manual_seed(2)
    return local_update(model, published, *samples(), HOW, floats=floats, generator=generator)[0]


@pytest.mark.parametrize("precision", ["fp32", "w1", "w1a1", "w4a4"])
@pytest.mark.parametrize("floats", ["fp16", "fp32"])
def test_the_aggregator_gets_the_very_model_that_the_device_has(precision: str, floats: str) -> None:
    device, server = prototype(precision), prototype(precision, seed=9)
    published = encode(pack_state(device.state_dict()))
    received = decode(encode(update(device, published, floats)))
    load_packed(server, received)
    x, _ = samples()
    assert torch.equal(device.eval()(x), server.eval()(x))


def test_training_starts_from_the_published_model_and_not_from_the_last_one() -> None:
    published = encode(pack_state(prototype("w1", seed=3).state_dict()))
    model = prototype("w1", seed=4)
    first, again = update(model, published), update(model, published)
    assert first.keys() == again.keys()
    weight = "predictor.weight"
    assert isinstance(first[weight], Packed)
    assert first[weight] == again[weight]
    assert (first["predictor.bias"] == again["predictor.bias"]).all()


def test_a_published_model_of_another_prototype_is_refused() -> None:
    published = encode(pack_state(prototype("fp32", arch="mlp").state_dict()))
    with pytest.raises(ModelError, match="another prototype"):
        update(prototype("fp32"), published)
