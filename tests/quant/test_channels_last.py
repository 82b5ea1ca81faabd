"""Filters with their channels last, as training leaves them, travel and are exported as what they are."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import safetensors.numpy
import torch

from models.build import build
from models.channels import channels_last_
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.delta import apply_delta, encode_delta
from quant.onnx.export import export_onnx
from quant.onnx.weights import read_weights
from quant.pack import load_packed, pack, pack_state
from wire.tensors import Packed, decode, encode, to_safetensors

FILTER = "extractor.body.stage2.0.conv1.weight"
PRECISIONS = ("fp32", "w1", "w2a2", "w4a4", "w8a8")


@pytest.fixture(params=PRECISIONS)
def models(request: pytest.FixtureRequest) -> tuple[Prototype, Prototype]:
    """The same network twice: as it is built, and with its channels last."""
    spec = PrototypeSpec(*parse_prototype(f"resnet8:{request.param}"), (3, 8, 8), 10, 16)
    plain = build(spec, generator=torch.Generator().manual_seed(0)).eval()
    last = copy.deepcopy(plain)
    assert channels_last_(last)
    assert plain.state_dict()[FILTER].is_contiguous()
    assert not last.state_dict()[FILTER].is_contiguous()
    return plain, last


def arrays(model: Prototype) -> dict[str, np.ndarray]:
    return {name: t.numpy() for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}


def dense(tensor: np.ndarray | Packed) -> np.ndarray:
    return tensor.dequantize() if isinstance(tensor, Packed) else tensor


def test_an_update_has_the_same_values(models: tuple[Prototype, Prototype]) -> None:
    plain, last = (decode(encode(pack(model))) for model in models)
    assert plain.keys() == last.keys()
    for name, tensor in plain.items():
        np.testing.assert_allclose(dense(last[name]), dense(tensor), rtol=1e-3, atol=1e-6)


def test_an_update_can_be_loaded_into_it(models: tuple[Prototype, Prototype]) -> None:
    plain, last = models
    sent = decode(encode(pack(plain)))
    for model in models:
        load_packed(model, sent)
    x = plain.example_input(4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(last(x), plain(x), rtol=1e-4, atol=1e-4)


def test_a_published_state_is_the_same_bytes_and_a_plain_safetensors_file(models: tuple[Prototype, Prototype]) -> None:
    plain, last = (encode(pack_state(model.state_dict())) for model in models)
    assert last == plain
    read = safetensors.numpy.load(to_safetensors(last))
    for name, value in arrays(models[0]).items():
        np.testing.assert_array_equal(read[name], value)


def test_arrays_that_are_not_contiguous_are_encoded_as_they_read(models: tuple[Prototype, Prototype]) -> None:
    plain, last = (arrays(model) for model in models)
    assert not last[FILTER].flags.c_contiguous
    assert encode(last) == encode(plain)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_delta_of_it_is_the_same(models: tuple[Prototype, Prototype], bits: int) -> None:
    plain, last = (arrays(model) for model in models)
    base = {name: np.zeros_like(value, order="C") for name, value in plain.items()}
    (of_plain, _), (of_last, _) = (encode_delta(new, base, None, bits) for new in (plain, last))
    ours, theirs = apply_delta(base, decode(encode(of_last))), apply_delta(base, decode(encode(of_plain)))
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-3, atol=1e-6)


def test_its_onnx_graph_answers_as_it_does_and_holds_its_weights(models: tuple[Prototype, Prototype]) -> None:
    plain, last = models
    example = plain.example_input(4, generator=torch.Generator().manual_seed(1))
    exported = export_onnx(last, example.contiguous(memory_format=torch.channels_last))
    assert exported.difference < 1e-4
    read = read_weights(exported.data)
    wanted = {name: dense(tensor) for name, tensor in pack(plain).items()}
    for name, value in read.items():
        np.testing.assert_allclose(dense(value), wanted[name], rtol=1e-3, atol=1e-6)
