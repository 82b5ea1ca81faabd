"""What is packed, sent and loaded computes the same bits."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from core.errors import ConfigError, ModelError, TensorError
from quant.layers import effective_weight
from quant.pack import load_packed, pack, pack_state, snap_, unpack
from quant.precision import FP32, PRECISIONS, Precision, parse_precision
from quant.quantized_weight import QuantizedWeight
from tests.quant.nets import small_net
from wire.tensors import Packed, decode, encode

QUANTIZED = [p for p in PRECISIONS if p.quantized]


def images(seed: int = 7) -> Tensor:
    return torch.randn(8, 2, 5, 5, generator=torch.Generator().manual_seed(seed))


def trained(precision: Precision) -> nn.Sequential:
    """A few steps with torch's own SGD, so that statistics, scales and biases have left their initial values."""
    net = small_net(precision)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images(step)), torch.arange(8) % 3).backward()
        optimizer.step()
    return net.eval()


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_logits_are_bit_equal_after_pack_send_and_load_with_fp32_floats(precision: Precision) -> None:
    net, other = trained(precision), small_net(precision, seed=1).eval()
    assert not torch.equal(net(images()), other(images()))
    load_packed(other, decode(encode(pack(net, floats="fp32"))))
    assert torch.equal(net(images()), other(images()))


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_logits_are_bit_equal_to_the_snapped_model_with_fp16_floats(precision: Precision) -> None:
    net, other = trained(precision), small_net(precision, seed=1).eval()
    exact = net(images())
    tensors = decode(encode(pack(net)))
    snap_(net)
    assert not torch.equal(net(images()), exact)
    load_packed(other, tensors)
    assert torch.equal(net(images()), other(images()))


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_a_loaded_model_packs_to_the_same_tensors_again(precision: Precision) -> None:
    tensors = pack(trained(precision))
    relay = small_net(precision, seed=1)
    load_packed(relay, tensors)
    again = pack(relay)
    assert encode(again) == encode(tensors)


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_quantized_weights_travel_packed_and_nothing_else_does(precision: Precision) -> None:
    tensors = pack(trained(precision))
    packed = {name: t.bits for name, t in tensors.items() if isinstance(t, Packed)}
    assert packed == dict.fromkeys(["0.weight", "3.weight", "7.weight"], precision.weight_bits)
    assert all(t.dtype == np.float16 for t in tensors.values() if not isinstance(t, Packed))
    assert not any("num_batches_tracked" in name for name in tensors)


def test_one_bit_scales_and_means_are_float16_by_filter() -> None:
    conv = pack(trained(parse_precision("w1")), floats="fp32")["0.weight"]
    assert isinstance(conv, Packed)
    assert conv.mean is not None
    assert conv.scale.dtype == conv.mean.dtype == np.float16
    assert conv.scale.shape == conv.mean.shape == (6,)


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
def test_unpack_gives_the_float_weights_that_the_layers_compute_with(precision: Precision) -> None:
    net = trained(precision)
    state = unpack(pack(net, floats="fp32"))
    for i in (0, 3, 7):
        assert torch.equal(state[f"{i}.weight"], effective_weight(net[i]))
    assert all(t.dtype == torch.float32 for t in state.values())


def test_a_float_twin_loaded_with_the_unpacked_w1_gives_the_same_logits() -> None:
    net, twin = trained(parse_precision("w1")), small_net(FP32, seed=1).eval()
    twin.load_state_dict(unpack(pack(net, floats="fp32")), strict=False)
    assert torch.equal(twin(images()), net(images()))


def test_float_weights_load_as_latents_that_are_quantized_on_use() -> None:
    """What the aggregator publishes is an average: float."""
    w1 = parse_precision("w1")
    average, device = trained(FP32), small_net(w1, seed=1)
    load_packed(device, pack(small_net(w1)))
    load_packed(device, pack(average, floats="fp32"))
    assert isinstance(device[0], QuantizedWeight)
    assert not device[0].weight_frozen
    assert torch.equal(device[0].weight, average[0].weight)  # type: ignore[arg-type]
    assert effective_weight(device[0])[0].unique().numel() == 2


@pytest.mark.parametrize("frozen", [False, True])
def test_packing_leaves_the_model_alone_and_shares_no_memory(frozen: bool) -> None:
    net = trained(parse_precision("w4a4"))
    if frozen:
        load_packed(net, pack(net))
    before = copy.deepcopy(net.state_dict())
    tensors = pack(net, floats="fp32")
    first = encode(tensors)
    for t in tensors.values():
        (t.levels if isinstance(t, Packed) else t)[...] = 1
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert encode(pack(net, floats="fp32")) == first


def test_snapping_twice_is_snapping_once_and_keeps_the_latent_weights() -> None:
    net = trained(parse_precision("w1"))
    latent = effective_weight(net[0]).clone(), net[0].weight.clone()  # type: ignore[operator, union-attr]
    snap_(net)
    once = copy.deepcopy(net.state_dict())
    snap_(net)
    assert all(torch.equal(t, once[name]) for name, t in net.state_dict().items())
    assert torch.equal(net[0].weight, latent[1])  # type: ignore[arg-type]
    assert torch.equal(effective_weight(net[0]), latent[0])


def test_snapping_to_fp32_changes_nothing() -> None:
    net = trained(FP32)
    before = copy.deepcopy(net.state_dict())
    snap_(net, floats="fp32")
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())


@pytest.mark.parametrize("value", [65505.0, -1e30, 6e-5, 1e-30])
def test_a_tensor_that_float16_cannot_hold_stays_float32(value: float) -> None:
    linear = nn.Linear(2, 2)
    nn.init.zeros_(linear.bias)
    linear.bias.data[1] = value
    tensors = pack(linear)
    assert isinstance(tensors["bias"], np.ndarray)
    assert isinstance(tensors["weight"], np.ndarray)
    assert (tensors["bias"].dtype, tensors["weight"].dtype) == (np.float32, np.float16)
    snap_(linear)
    assert linear.bias.tolist() == [0.0, float(np.float32(value))]


def test_all_zeros_travel_as_float16() -> None:
    linear = nn.Linear(2, 2)
    nn.init.zeros_(linear.bias)
    assert pack(linear)["bias"].dtype == np.float16  # type: ignore[union-attr]


def test_a_nan_is_left_for_the_wire_to_refuse_by_name() -> None:
    linear = nn.Linear(2, 1)
    linear.bias.data[0] = float("nan")
    with pytest.raises(TensorError, match="'bias'"):
        encode(pack(linear))


def test_integer_buffers_keep_their_type() -> None:
    module = nn.Module()
    module.register_buffer("count", torch.tensor([3, -4]))
    tensors = pack(module)
    assert tensors["count"].dtype == np.int64  # type: ignore[union-attr]
    assert unpack(tensors)["count"].tolist() == [3, -4]


def refused(tensors: dict[str, object], why: str) -> None:
    net = small_net(parse_precision("w1"), seed=1)
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(ModelError, match=why) as caught:
        load_packed(net, tensors)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert not net[0].weight_frozen


def test_a_missing_tensor_is_named() -> None:
    tensors = dict(pack(small_net(parse_precision("w1"))))
    del tensors["3.weight"]
    refused(tensors, "missing: '3.weight'")  # type: ignore[arg-type]


def test_an_unexpected_tensor_is_named() -> None:
    tensors = dict(pack(small_net(parse_precision("w1"))))
    refused({**tensors, "9.bias": np.zeros(3, np.float32)}, "unexpected tensors: '9.bias'")


def test_a_wrong_shape_is_named_with_both_shapes() -> None:
    tensors = dict(pack(small_net(parse_precision("w1"))))
    refused({**tensors, "7.bias": np.zeros(4, np.float32)}, r"'7.bias' is \(4,\), expected \(3,\)")


def test_a_packed_tensor_for_a_float_layer_is_named() -> None:
    signs = Packed(bits=1, levels=np.ones(3, np.int8), scale=np.array(1, np.float16))
    tensors = dict(pack(small_net(parse_precision("w1"))))
    refused({**tensors, "7.bias": signs}, "'7.bias' is packed at 1 bit, but the layer has float")


def test_other_bits_than_the_layers_are_named() -> None:
    ternary = Packed(bits=2, levels=np.ones((3, 24), np.int8), scale=np.array(1, np.float16))
    tensors = dict(pack(small_net(parse_precision("w1"))))
    refused({**tensors, "7.weight": ternary}, "'7.weight' is packed at 2 bit, but the layer has 1 bit")


def test_many_wrong_names_are_cut_short() -> None:
    with pytest.raises(ModelError, match=r"'0.weight', '1.bias', '1.running_mean', '1.running_var' and \d+ more"):
        load_packed(small_net(FP32), {})


def test_a_frozen_weight_without_levels_cannot_be_packed() -> None:
    net = small_net(parse_precision("w1"))
    net[0].freeze_weight()  # type: ignore[operator]
    with pytest.raises(ModelError, match=r"'0.weight' is frozen but its levels are not known"):
        pack(net)


def test_unknown_floats_are_refused() -> None:
    for call in (pack, snap_):
        with pytest.raises(ConfigError, match="unknown floats 'bf16'; known: fp16 fp32"):
            call(nn.Linear(1, 1), floats="bf16")  # type: ignore[operator]


def test_a_published_state_is_full_precision_and_loads_as_the_latent() -> None:
    model, device = small_net(parse_precision("w1")), small_net(parse_precision("w1"))
    with torch.no_grad():
        device[0].weight.add_(1.0)
    load_packed(device, pack_state(model.state_dict()))
    assert torch.equal(device[0].weight, model[0].weight)
    assert not device[0].weight_frozen


def test_a_published_state_can_travel_in_half_and_leaves_out_the_batch_counter() -> None:
    state = {"bn.num_batches_tracked": torch.tensor(3), "w": torch.tensor([1.0, 2.0]), "big": torch.tensor([1e6])}
    sent = pack_state(state, floats="fp16")
    assert {name: str(t.dtype) for name, t in sent.items()} == {"w": "float16", "big": "float32"}
