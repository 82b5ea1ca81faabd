"""Published models as sealed bytes."""

import msgspec
import numpy as np
import pytest

from aggregator.storage.artifacts import content_of, open_artifact, payload_of, published_tensors, seal_artifact
from tests.aggregator.scripted import FLEET, key_of
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR, digest_of
from wire.messages import ModelHeader, Task
from wire.tensors import Packed, encode

pytestmark = pytest.mark.light
HEADER = ModelHeader(round=3, prototype="cnn:w1", input_shape=(1, 8, 8), classes=3, latent=8, recipe="fedavg")
SIGNS = Packed(bits=1, levels=np.ones((2, 3), np.int8), scale=np.array(0.5, np.float16))
BODY = encode({"predictor.weight": SIGNS, "predictor.bias": np.zeros(2, np.float16)})


def sealed(header: ModelHeader = HEADER) -> bytes:
    return seal_artifact(header, BODY, key=key_of(AGGREGATOR), fleet=FLEET)


def test_the_same_model_has_the_same_bytes_whenever_it_is_sealed() -> None:
    assert sealed() == sealed()
    other = ModelHeader(round=4, prototype="cnn:w1", input_shape=(1, 8, 8), classes=3, latent=8, recipe="fedavg")
    assert digest_of(sealed(other)) != digest_of(sealed())


def test_a_device_can_open_it_and_so_can_we() -> None:
    envelope = open_envelope(
        sealed(), public_key=key_of(AGGREGATOR).public_key(), fleet=FLEET, sender=AGGREGATOR, kinds=("model",)
    )
    assert envelope.round == 3
    assert payload_of(sealed()) == envelope.payload
    assert open_artifact(sealed()) == (HEADER, BODY)


def test_the_shapes_of_a_prototype_are_those_of_its_artifact() -> None:
    assert published_tensors(sealed()).shapes == {"predictor.weight": (2, 3), "predictor.bias": (2,)}


def test_it_is_cut_into_chunks_of_64_kib() -> None:
    assert content_of("0" * 64, 200_000).count == 4


def test_only_a_model_with_a_task_needs_a_newer_reader() -> None:
    told = msgspec.structs.replace(HEADER, task=Task(class_names=("a", "b", "c")))
    assert (sealed()[0], sealed(told)[0]) == (1, 3)
    assert open_artifact(sealed(told)) == (told, BODY)
