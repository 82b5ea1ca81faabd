"""Published models as files: their tensors, their forms, and the card in each."""

from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
import safetensors.numpy
import torch

from aggregator.storage.artifacts import open_artifact, seal_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.exports import Export, export_model
from aggregator.storage.journal import Journal
from core.errors import ConfigError
from edge_agent.predict.model import Model
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.session import open_session, run_graph
from quant.onnx.targets import target_of_runtime
from tests.aggregator.scripted import FLEET
from tests.aggregator.storage.test_models import KEY, published
from wire.messages import Task
from wire.tensors import decode


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


def test_an_export_as_safetensors_has_the_tensors(journal: Journal, blobs: Blobs, tmp_path: Path) -> None:
    sealed = blobs.read(published(journal, blobs, "mlp:fp32", 1).digest)
    facts = export_model(sealed, tmp_path / "m.safetensors", Export(kind="safetensors"))
    found = safetensors.numpy.load_file(tmp_path / "m.safetensors")
    for name, array in decode(open_artifact(sealed)[1]).items():
        np.testing.assert_array_equal(found[name], array)
    assert facts["bytes"] == (tmp_path / "m.safetensors").stat().st_size


@pytest.mark.parametrize("prototype", ["mlp:fp32", "cnn:w1"])
def test_an_export_as_onnx_answers_like_the_model(
    journal: Journal, blobs: Blobs, tmp_path: Path, prototype: str
) -> None:
    from models.build import build
    from quant.pack import load_packed

    sealed = blobs.read(published(journal, blobs, prototype, 1).digest)
    facts = export_model(sealed, tmp_path / "m.onnx", Export())
    assert facts["prototype"] == prototype
    model = build(PrototypeSpec(*parse_prototype(prototype), (1, 8, 8), 3, 8))
    load_packed(model, decode(open_artifact(sealed)[1]))
    x = np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)
    with torch.inference_mode():
        expected = model.eval()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(run_graph(open_session(tmp_path / "m.onnx"), x), expected, atol=1e-4)


def test_int8_needs_samples_and_is_smaller(journal: Journal, blobs: Blobs, tmp_path: Path) -> None:
    sealed = blobs.read(published(journal, blobs, "mlp:fp32", 1).digest)
    with pytest.raises(ConfigError, match="int8 needs samples"):
        export_model(sealed, tmp_path / "m.onnx", Export(kind="onnx-int8"))
    x = np.random.default_rng(0).normal(size=(64, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "v.npz", x=x, y=np.arange(64) % 3)
    small = export_model(sealed, tmp_path / "m.onnx", Export(precision="int8", calibration=tmp_path / "v.npz"))
    large = export_model(sealed, tmp_path / "l.onnx", Export())
    assert small["bytes"] < 0.5 * large["bytes"]
    assert small["agreement"] > 0.8


def test_an_unknown_format_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown format 'pickle'; known: onnx onnx-int8 safetensors"):
        export_model(b"", tmp_path / "m", Export(kind="pickle"))


def with_task(sealed: bytes, **said: object) -> bytes:
    header, body = open_artifact(sealed)
    task = Task(class_names=("a", "b", "c"), **said)
    return seal_artifact(msgspec.structs.replace(header, task=task), body, key=KEY, fleet=FLEET)


def test_a_file_carries_its_card_with_the_accuracy_that_it_has_itself(
    journal: Journal, blobs: Blobs, tmp_path: Path
) -> None:
    sealed = with_task(blobs.read(published(journal, blobs, "cnn:w1", 1).digest), kind="image", mean=(9.0,), std=(7.0,))
    x = np.random.default_rng(0).integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "v.npz", x=x, y=np.arange(40) % 3, mean=9, std=7)
    export = Export(validation=tmp_path / "v.npz", fleet="f")
    facts = export_model(sealed, tmp_path / "plain.onnx", export)
    export_model(sealed, tmp_path / "raw.onnx", msgspec.structs.replace(export, raw_input=True))
    plain, raw = Model(tmp_path / "plain.onnx"), Model(tmp_path / "raw.onnx")
    assert plain.classes == raw.classes == ("a", "b", "c")
    assert (raw.card.input.dtype, raw.card.output, plain.card.output) == ("uint8", "probabilities", "logits")
    assert np.abs(plain.predict(x).probabilities - raw.predict(x).probabilities).max() < 1e-5
    hits = float(np.mean(raw.predict(x).classes == np.arange(40) % 3))
    assert raw.card.accuracy == plain.card.accuracy == facts["accuracy"] == hits
    assert (raw.card.accuracy_samples, raw.card.precision, raw.card.fleet) == (40, "w1", "f")


@pytest.mark.parametrize(
    ("prototype", "runtime", "opset", "ir"),
    [
        ("cnn:w1", "1.15", 18, 8),
        ("cnn:w1", "1.20", 21, 10),
        ("cnn:w1", "1.24", 25, 13),
        ("cnn:w4a4", "1.18.1", 18, 8),
        ("cnn:w4a4", "1.30", 21, 10),
        ("cnn:w2a2", "1.23", 21, 10),
        ("cnn:w8a8", "1.30", 18, 8),
        ("cnn:fp32", "1.15", 18, 8),
    ],
)
def test_older_runtimes_get_older_versions_and_the_same_answers(
    journal: Journal, blobs: Blobs, tmp_path: Path, prototype: str, runtime: str, opset: int, ir: int
) -> None:
    sealed = blobs.read(published(journal, blobs, prototype, 1).digest)
    export_model(sealed, tmp_path / "own.onnx", Export())
    facts = export_model(sealed, tmp_path / "m.onnx", Export(low_bits=target_of_runtime(runtime).low_bits))
    model = onnx.load(tmp_path / "m.onnx")
    assert (facts["opset"], facts["ir"]) == (model.opset_import[0].version, model.ir_version) == (opset, ir)
    x = np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)
    answers = [run_graph(open_session(tmp_path / name), x) for name in ("own.onnx", "m.onnx")]
    np.testing.assert_array_equal(*answers)


def test_weights_are_written_at_another_precision_where_that_can_be(
    journal: Journal, blobs: Blobs, tmp_path: Path
) -> None:
    sealed = blobs.read(published(journal, blobs, "cnn:fp32", 1).digest)
    large, small = (export_model(sealed, tmp_path / f"{p}.onnx", Export(precision=p)) for p in ("fp32", "w1"))
    assert small["bytes"] < 0.5 * large["bytes"]
    with pytest.raises(ConfigError, match="was trained without quantized activations"):
        export_model(sealed, tmp_path / "m.onnx", Export(precision="w8a8"))
    with pytest.raises(ConfigError, match="known are int8 fp32"):
        export_model(sealed, tmp_path / "m.onnx", Export(precision="w3"))
    own = blobs.read(published(journal, blobs, "mlp:w8a8", 1).digest)
    assert export_model(own, tmp_path / "m.onnx", Export(precision="fp32"))["precision"] == "fp32"


def test_linear_layers_go_as_matmulnbits_if_asked(journal: Journal, blobs: Blobs, tmp_path: Path) -> None:
    sealed = blobs.read(published(journal, blobs, "mlp:w1", 1).digest)
    facts = export_model(sealed, tmp_path / "m.onnx", Export(nbits=2))
    assert "predictor.weight" in facts["matmul_nbits"]
    assert Model(tmp_path / "m.onnx").predict(np.zeros((1, 1, 8, 8), np.float32)).probabilities.shape == (1, 3)
    with pytest.raises(ConfigError, match="not for int8"):
        export_model(sealed, tmp_path / "m.onnx", Export(precision="int8", nbits=2))


def test_raw_inputs_need_a_normalization(journal: Journal, blobs: Blobs, tmp_path: Path) -> None:
    sealed = blobs.read(published(journal, blobs, "mlp:fp32", 1).digest)
    with pytest.raises(ConfigError, match=r"give \[task\] mean and std"):
        export_model(sealed, tmp_path / "m.onnx", Export(raw_input=True))
    assert not (tmp_path / "m.onnx").exists()
