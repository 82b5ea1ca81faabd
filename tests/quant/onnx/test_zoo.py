"""Every architecture of the zoo in every precision: exported, run, read back, patched."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto
from safetensors.torch import save_file

from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype
from models.text.distilbert import DistilBert
from models.text.distilbert_files import DistilBertConfig
from models.zoo import ZOO
from quant.layers import FloatLayers, effective_weight, is_quantized
from quant.onnx.export import export_onnx
from quant.onnx.freeze import packed_weights
from quant.onnx.graph_check import parse_graph
from quant.onnx.integers.lowbit import default_low_bits
from quant.onnx.session import max_difference, open_session, run_graph
from quant.onnx.weights import patch_weights, read_weights
from quant.precision import PRECISIONS, Precision, parse_precision
from wire.tensors import Packed

TOKENS = 30
SHAPES = {"text": (6,), "distilbert": (6,)}
OPTIONS = {"text": {"tokens": TOKENS}, "mlp": {"hidden": 20}}


@pytest.fixture(scope="module")
def distilbert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a DistilBERT with one block of width 8."""
    config = {
        "vocab_size": TOKENS,
        "max_position_embeddings": 8,
        "n_layers": 1,
        "n_heads": 2,
        "dim": 8,
        "hidden_dim": 12,
    }
    folder = tmp_path_factory.mktemp("distilbert")
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "distilbert", "activation": "gelu"}))
    save_file(DistilBert(FloatLayers(), DistilBertConfig(**config)).state_dict(), folder / "model.safetensors")
    return folder


def stirred(model: Prototype) -> Prototype:
    """Norms as after training: none of their tensors is all ones or zeros, so a mix-up of two shows."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and tensor.ndim == 1:
                tensor.add_(torch.rand(tensor.shape, generator=generator), alpha=0.5)
            if name.endswith("scaling_impl.value"):
                tensor.mul_(0.7)
    return model.eval()


def make(arch: str, precision: str, folder: Path) -> Prototype:
    options = {"folder": folder} if arch == "distilbert" else OPTIONS.get(arch)
    spec = PrototypeSpec(arch, parse_precision(precision), SHAPES.get(arch, (1, 8, 8)), 3)
    return stirred(build(spec, generator=torch.Generator().manual_seed(1), options=options))


def expected_state(model: Prototype) -> dict[str, np.ndarray]:
    """The model's state, with the weights that it computes with in place of the latent ones."""
    state = {name: t.numpy() for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    for path, module in model.named_modules():
        if is_quantized(module):
            state[f"{path}.weight"] = effective_weight(module).detach().numpy()
    return state


#: Seconds each, so they run with the slow tests: ResNets of more of ResNet-8's blocks, and deep nets whose 4- and 2-bit
#: forms have the layers of the 8-bit one.
LONGER = ("resnet20", "resnet20-gn", "resnet32", "resnet32-gn")
DEEP = ("shufflenetv2", "mobilenetv2")


def is_slow(arch: str, precision: Precision) -> bool:
    if arch == "distilbert":
        return True
    return (arch in LONGER and precision.quantized) or (arch in DEEP and precision.weight_bits in (2, 4))


MATRIX = [pytest.param(arch, str(p), marks=[pytest.mark.slow] * is_slow(arch, p)) for arch in ZOO for p in PRECISIONS]


@pytest.mark.parametrize(("arch", "precision"), MATRIX)
def test_a_prototype_survives_onnx(arch: str, precision: str, distilbert_folder: Path):
    model = make(arch, precision, distilbert_folder)
    exported = export_onnx(model, model.example_input(2, generator=_seeded(2)))
    assert exported.difference < 1e-4
    assert {o.domain for o in parse_graph(exported.data).opset_import} == {""}
    check_weights(model, exported.data)
    check_storage(model, exported.data)
    if model.spec.precision.act_bits is None:  # otherwise a value on a step may fall on either side
        check_batches(model, exported.data)


def check_weights(model: Prototype, data: bytes) -> None:
    """Every tensor of the state dict comes back by name, bit by bit."""
    weights, expected = read_weights(data), expected_state(model)
    assert weights.keys() == expected.keys()
    for name, value in weights.items():
        got = value.dequantize() if isinstance(value, Packed) else value
        assert got.dtype == expected[name].dtype, name
        np.testing.assert_array_equal(got, expected[name], err_msg=name)


def check_storage(model: Prototype, data: bytes) -> None:
    """Exactly the quantized weights are stored as levels, and not in a wider type than they need."""
    quantized = {f"{path}.weight" for path, module in model.named_modules() if is_quantized(module)}
    assert bool(quantized) == model.spec.precision.quantized
    levels = {t.name: t.data_type for t in parse_graph(data).graph.initializer if ":q" in t.name}
    assert {name.rpartition(":")[0] for name in levels} == quantized
    low = {"int2": TensorProto.INT2, "int4": TensorProto.INT4}[default_low_bits()]
    expected = {1: low, 2: low, 4: TensorProto.INT4, 8: TensorProto.INT8}
    assert set(levels.values()) <= {expected.get(model.spec.precision.weight_bits)}


def check_batches(model: Prototype, data: bytes) -> None:
    """The batch size is free."""
    session = open_session(data)
    for batch in (1, 3):
        x = model.example_input(batch, generator=_seeded(4))
        with torch.no_grad():
            assert max_difference(model(x).numpy(), run_graph(session, x.numpy())) < 1e-4


@pytest.mark.parametrize("precision", [str(p) for p in PRECISIONS])
@pytest.mark.parametrize("arch", ["cnn", "resnet8-gn", "text"])
def test_a_template_patched_with_other_weights_answers_as_their_model(
    arch: str, precision: str, distilbert_folder: Path
):
    template = export_onnx(
        (first := make(arch, precision, distilbert_folder)), x := first.example_input(4, generator=_seeded(5))
    ).data
    other = make(arch, precision, distilbert_folder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=_seeded(6)), alpha=0.05)
    plain = {k: t.numpy() for k, t in other.state_dict().items()}
    patched = patch_weights(template, {**plain, **packed_weights(other)})
    direct = export_onnx(other, x)
    assert patched == direct.data
    assert direct.difference < 1e-4
    assert template != patched


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
