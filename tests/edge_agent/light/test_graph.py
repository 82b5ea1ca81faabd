"""The graph of a light device with the fleet's weights, against torch; and which graph it uses when."""

from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ConfigError, ModelError
from edge_agent.light.graph import Graphs, refreshed
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.onnx.export import export_onnx
from quant.onnx.parity import PARITY
from quant.onnx.session import max_difference, open_session, run_graph
from quant.onnx.split import extractor_graph
from quant.onnx.weights import convert_low_bits, read_weights
from quant.pack import load_packed, pack, pack_state
from wire.tensors import Tensor, decode, encode
from wire.tensors.packed import Packed

IMAGES, CLASSES, LATENT = (1, 8, 8), 5, 12
LARGE = pytest.param("mobilenetv2", marks=pytest.mark.slow)  # its export takes seconds
ARCHITECTURES = ["mlp", "cnn", "mcmahan_cnn", "resnet8", "resnet8-gn", LARGE]
PRECISIONS = ["fp32", "w1", "w1a1", "w2a2", "w4a4", "w8a8"]


def model(prototype: str, seed: int, shape: tuple[int, ...] = IMAGES, latent: int = LATENT) -> Prototype:
    """With BatchNorm statistics of its own, as after training."""
    generator = torch.Generator().manual_seed(seed)
    made = build(PrototypeSpec(*parse_prototype(prototype), shape, CLASSES, latent), generator=generator)
    made.train()
    for _ in range(3):
        made(made.example_input(8, generator=generator) * 2 + 1)
    return made.eval()


def published(of: Prototype) -> dict[str, Tensor]:
    """Its tensors as the aggregator publishes them; the model then has the same."""
    floats = "fp16" if of.spec.precision.quantized else "fp32"
    tensors = decode(encode(pack_state(of.state_dict(), floats=floats)))
    load_packed(of, tensors)
    return tensors


def kit(prototype: str, **options: bool) -> bytes:
    other = model(prototype, seed=1)
    return export_onnx(other, other.example_input(2, generator=torch.Generator().manual_seed(0)), **options).data


def latents_differ(data: bytes, of: Prototype) -> tuple[float, float]:
    """Of latents and of logits, torch against ONNX Runtime."""
    x = of.example_input(16, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        z, logits = of.extractor(x).numpy(), of(x).numpy()
    cut = run_graph(open_session(extractor_graph(data)), x.numpy())
    return max_difference(cut, z), max_difference(run_graph(open_session(data), x.numpy()), logits)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("precision", ["fp32", "w1"])
def test_a_published_model_in_the_kits_graph_answers_as_torch_does(arch: str, precision: str) -> None:
    prototype = f"{arch}:{precision}"
    fleets = model(prototype, seed=2)
    graph = refreshed(kit(prototype), published(fleets), fleets.spec.precision)
    assert max(latents_differ(graph, fleets)) < 1e-5
    assert max(latents_differ(kit(prototype), fleets)) > 1e-2  # else the test says nothing


@pytest.mark.parametrize("precision", PRECISIONS)
def test_its_weights_are_those_that_torch_packs(precision: str) -> None:
    fleets = model(f"cnn:{precision}", seed=2)
    weights = read_weights(refreshed(kit(f"cnn:{precision}"), published(fleets), fleets.spec.precision))
    torchs = pack(fleets, floats="fp32")
    assert weights.keys() == torchs.keys()
    for name, theirs in torchs.items():
        ours = weights[name]
        assert isinstance(ours, Packed) == isinstance(theirs, Packed), name
        if isinstance(ours, Packed):
            assert np.array_equal(ours.levels, theirs.levels), name
            assert np.allclose(ours.dequantize(), theirs.dequantize(), rtol=3e-7, atol=0), name
        else:
            assert np.array_equal(ours, theirs), name


@pytest.mark.parametrize("storage", ["int2", "int4", "int8"])
def test_levels_stay_in_the_kits_storage(storage: str) -> None:
    fleets = model("cnn:w1", seed=2)
    older = convert_low_bits(kit("cnn:w1"), storage)
    graph = refreshed(older, published(fleets), fleets.spec.precision)
    assert max(latents_differ(graph, fleets)) < 1e-5
    assert abs(len(graph) - len(older)) < 200


@pytest.mark.parametrize("precision", ["w2a2", "w4a4", "w8a8"])
def test_quantized_activations_have_the_published_scales(precision: str) -> None:
    """Of few samples, so that no activation lies on a step."""
    fleets = model(f"mlp:{precision}", seed=2)
    with torch.no_grad():
        for name, value in fleets.named_parameters():
            if "act" in name:
                value.mul_(1.5)
    graph = refreshed(kit(f"mlp:{precision}"), published(fleets), fleets.spec.precision)
    assert max(latents_differ(graph, fleets)) < PARITY


def test_a_graph_of_other_names_or_shapes_is_refused_by_name() -> None:
    fleets = model("cnn:fp32", seed=2)
    tensors, precision = published(fleets), fleets.spec.precision
    with pytest.raises(ModelError, match=r"weight 'extractor\.body\.conv1\.bias' is not in the ONNX template"):
        refreshed(kit("mlp:fp32"), tensors, precision)
    with pytest.raises(ModelError, match=r"'extractor\.adapter\.\w+' is \(13,.*, the ONNX template has \(12,"):
        refreshed(kit("cnn:fp32"), published(model("cnn:fp32", seed=2, latent=13)), precision)
    with pytest.raises(ModelError, match="of the ONNX template is not given"):
        refreshed(kit("cnn:fp32"), {n: t for n, t in tensors.items() if "conv2" not in n}, precision)


def test_float_weights_in_the_graph_of_a_quantized_prototype_are_refused() -> None:
    """They would get the latent weights."""
    fleets = model("cnn:w1", seed=2)
    with pytest.raises(ModelError, match="stores no weight in 1 bits"):
        refreshed(kit("cnn:w1", compact=False), published(fleets), fleets.spec.precision)


@pytest.mark.parametrize(
    ("refresh", "is_job", "trained", "expected"),
    [
        ("always", True, True, ["fleet", "kept", "kit"]),
        ("always", False, True, ["fleet", "kept", "kit"]),
        ("offers", True, True, ["kept", "kit"]),
        ("offers", False, True, ["fleet", "kept", "kit"]),
        ("never", True, True, ["kit"]),
        ("never", False, True, ["kit"]),
        ("always", True, False, ["kit"]),
        ("offers", False, False, ["kit"]),
    ],
)
def test_the_order_of_sources(tmp_path: Path, refresh: str, is_job: bool, trained: bool, expected: list[str]) -> None:
    graphs = Graphs(kit=tmp_path / "kit", kept=tmp_path / "kept", refresh=refresh, is_job=is_job, fleet_trained=trained)
    assert list(graphs.sources()) == [source for source in expected if source != "kept"]
    (tmp_path / "kept").write_bytes(b"x")
    assert list(graphs.sources()) == expected


def test_a_kit_without_its_graph_is_a_wrong_configuration(tmp_path: Path) -> None:
    graphs = Graphs(kit=tmp_path / "kit", kept=tmp_path, refresh="always", is_job=True, fleet_trained=True)
    with pytest.raises(ConfigError, match=r"\[model\] graph: .*kit: No such file"):
        graphs.read("fleet", {}, parse_prototype("mlp")[1])
    with pytest.raises(ModelError, match="directory"):
        graphs.read("kept", {}, parse_prototype("mlp")[1])
