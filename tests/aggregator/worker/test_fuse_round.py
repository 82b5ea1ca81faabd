"""Fusing from disk: the arithmetic of the simulated fleet, every kind of update, one update in memory at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from aggregator.evaluate import evaluate
from aggregator.fusion.averages.mean import weighted_mean
from aggregator.fusion.types import Memory
from aggregator.recipes.catalogue import find_recipe
from aggregator.storage.artifacts import open_artifact, payload_of
from aggregator.storage.blobs import Blobs
from aggregator.storage.rows import UpdateRow
from aggregator.worker.first_model import wire_floats
from aggregator.worker.fuse_round import Fuser, StoredGroup
from aggregator.worker.stored_updates import base_arrays
from models.build import build
from models.roles import EXTRACTOR_ROUND, slice_state
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from quant.delta import encode_delta
from quant.layers import weights_as_they_are
from quant.onnx.export import export_onnx
from quant.pack import load_packed, pack, pack_state, unpack
from tests.aggregator.scripted import FLEET, key_of, seal_update
from wire.headers import encode_update
from wire.ids import AGGREGATOR
from wire.messages import ModelHeader, UpdateHeader
from wire.tensors import decode, encode

SEED = 3
FP32 = PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 4, 4), 3, 8)
W1 = PrototypeSpec(*parse_prototype("mlp:w1"), (1, 4, 4), 3, 8)


@pytest.fixture
def fuser(tmp_path: Path) -> Fuser:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(12, 1, 4, 4, generator=generator), torch.arange(12) % 3
    return Fuser(Blobs(tmp_path / "blobs"), key_of(AGGREGATOR), FLEET, (x, y))


def send(
    fuser: Fuser, device: str, spec: PrototypeSpec, body: bytes, kind: str = "state", examples: int = 5, **facts: object
) -> UpdateRow:
    header = UpdateHeader(
        round=1,
        device=device,
        prototype=str(spec),
        update=kind,
        num_examples=examples,
        label_counts=facts.get("label_counts", ()),
        base=None,
        metrics={"train_loss": float(examples)},
    )
    sealed = seal_update(device, encode_update(header, body), 1)
    return UpdateRow(
        device=device,
        round=1,
        transfer=device,
        digest=fuser.blobs.put(sealed),
        size=len(sealed),
        prototype=str(spec),
        kind=kind,
        num_examples=examples,
        nonce=b"",
        received=0.0,
        metrics=header.metrics,
    )


def fuse(
    fuser: Fuser, spec: PrototypeSpec, base: str, rows: list[UpdateRow], number: int = 1
) -> tuple[str, ModelHeader]:
    group = StoredGroup(spec=spec, base=base, rows=rows)
    ((digest, header),), _ = fuser.fuse(find_recipe("fedavg"), number, [group], Memory())
    return digest, header


def trained(spec: PrototypeSpec, number: int) -> torch.nn.Module:
    return build(spec, generator=torch_rng(number, "another start"))


def tensors_of(fuser: Fuser, digest: str) -> dict:
    return decode(open_artifact(fuser.blobs.read(digest))[1])


@pytest.mark.parametrize("spec", [FP32, W1], ids=str)
def test_the_first_model_is_the_one_of_the_simulated_fleet(fuser: Fuser, spec: PrototypeSpec) -> None:
    digest, header = fuser.start(spec, SEED)
    model = build(spec, generator=torch_rng(SEED, "init", str(spec)))
    expected = encode(pack_state(unpack(pack_state(model.state_dict(), floats="fp32")), floats=wire_floats(spec)))
    assert open_artifact(fuser.blobs.read(digest))[1] == expected
    assert (header.round, header.recipe, header.parents, header.latent) == (0, "start", (), 8)
    assert fuser.start(spec, SEED)[0] == digest
    assert fuser.start(spec, SEED + 1)[0] != digest


@pytest.mark.parametrize("spec", [FP32, W1], ids=str)
def test_the_fused_model_has_the_bits_of_the_recipe_in_memory(fuser: Fuser, spec: PrototypeSpec) -> None:
    base, _ = fuser.start(spec, SEED)
    packed = [pack(trained(spec, n), floats=wire_floats(spec)) for n in range(3)]
    rows = [send(fuser, f"d{n}", spec, encode(p), examples=n + 1) for n, p in enumerate(packed)]
    digest, header = fuse(fuser, spec, base, rows)
    expected = weighted_mean([unpack(decode(encode(p))) for p in packed], [1, 2, 3])
    assert open_artifact(fuser.blobs.read(digest))[1] == encode(pack_state(expected, floats=wire_floats(spec)))
    assert header.parents == (base, *(row.digest for row in rows))
    assert header.metrics["train_loss"] == pytest.approx((1 + 4 + 9) / 6)
    assert fuse(fuser, spec, base, rows)[0] == digest


def test_the_published_train_loss_weighs_devices_by_what_they_counted_for(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    body = encode(pack(trained(FP32, 0)))
    rows = [send(fuser, f"d{n}", FP32, body, examples=examples) for n, examples in enumerate([10, 10, 10**9])]
    _, header = fuse(fuser, FP32, base, rows)
    assert header.metrics["train_loss"] == pytest.approx((10 * 10 + 10 * 10 + 30 * 1e9) / 50)


def test_averages_by_label_read_the_label_counts_of_stored_updates(fuser: Fuser) -> None:
    """d0 alone has label 0: row 0 of the predictor is its own, as in the simulated fleet."""
    base, _ = fuser.start(FP32, SEED)
    packed = [pack(trained(FP32, n), floats="fp32") for n in range(2)]
    counts = [(4, 0, 0), (0, 2, 2)]
    rows = [
        send(fuser, f"d{n}", FP32, encode(p), examples=4, label_counts=c)
        for n, (p, c) in enumerate(zip(packed, counts, strict=True))
    ]
    group = StoredGroup(spec=FP32, base=base, rows=rows)
    ((digest, _),), _ = fuser.fuse(find_recipe("fedavg", {"average": "by-label"}), 1, [group], Memory())
    found = tensors_of(fuser, digest)["predictor.weight"]
    np.testing.assert_allclose(found[0], packed[0]["predictor.weight"][0], rtol=1e-6)
    np.testing.assert_allclose(found[1], packed[1]["predictor.weight"][1], rtol=1e-6)


def test_a_model_is_judged_by_what_a_board_would_run(fuser: Fuser) -> None:
    """Counted anew from the published bytes: `accuracy` and `loss` at 1 bit, `accuracy_float` beside them."""
    base, _ = fuser.start(W1, SEED)
    rows = [send(fuser, f"d{n}", W1, encode(pack(trained(W1, n)))) for n in range(2)]
    digest, header = fuse(fuser, W1, base, rows)
    board = build(W1)
    load_packed(board, tensors_of(fuser, digest))
    scored = evaluate(board, *fuser.validation)
    assert (header.metrics["accuracy"], header.metrics["loss"]) == (scored.accuracy, pytest.approx(scored.loss))
    with weights_as_they_are(board):
        assert evaluate(board, *fuser.validation).loss != pytest.approx(scored.loss), "or this would tell nothing"


def test_the_scores_are_those_of_the_fused_model_at_its_precision_and_with_float_weights(fuser: Fuser) -> None:
    base, header = fuser.start(W1, SEED)
    assert set(header.metrics) == {"accuracy", "loss", "accuracy_float"}
    row = send(fuser, "d0", W1, encode(pack(trained(W1, 0))))
    _, header = fuse(fuser, W1, base, [row])
    assert set(header.metrics) == {"accuracy", "loss", "accuracy_float", "train_loss", "extractor_round"}
    without = Fuser(fuser.blobs, fuser.key, FLEET)
    assert set(fuse(without, W1, base, [row])[1].metrics) == {"train_loss", "extractor_round"}


def test_a_delta_is_added_to_the_model_it_started_from(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    arrays = base_arrays(fuser.blobs.read(base))
    new = {name: array + np.float32(0.5) for name, array in arrays.items()}
    delta, left = encode_delta(new, arrays, None, 8)
    digest, _ = fuse(fuser, FP32, base, [send(fuser, "d0", FP32, encode(delta), "delta")])
    for name, array in tensors_of(fuser, digest).items():
        np.testing.assert_array_equal(array, new[name] - left[name])


def test_predictors_alone_leave_the_extractor_as_it_was(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    predictor = {"predictor.weight": np.ones((3, 8), np.float32), "predictor.bias": np.ones(3, np.float32)}
    rows = [
        send(fuser, "d0", FP32, encode(predictor), "predictor", examples=1),
        send(fuser, "d1", FP32, encode({n: 3 * a for n, a in predictor.items()}), "predictor", examples=1),
    ]
    fused, before = (tensors_of(fuser, d) for d in (fuse(fuser, FP32, base, rows)[0], base))
    for name, array in before.items():
        expected = np.full_like(array, 2) if name in predictor else array
        np.testing.assert_array_equal(fused[name], expected)


def test_a_model_names_the_last_round_that_changed_its_extractor(fuser: Fuser) -> None:
    base, header = fuser.start(W1, SEED)
    assert EXTRACTOR_ROUND not in header.metrics
    predictor = send(fuser, "d0", W1, encode(slice_state(pack(trained(W1, 0)), "predictor")), "predictor")
    for number in (1, 2):  # predictors alone change none
        base, header = fuse(fuser, W1, base, [predictor], number)
        assert EXTRACTOR_ROUND not in header.metrics
    whole = send(fuser, "d1", W1, encode(pack(trained(W1, 1))))
    base, header = fuse(fuser, W1, base, [predictor, whole], 3)
    assert header.metrics[EXTRACTOR_ROUND] == 3
    base, header = fuse(fuser, W1, base, [predictor], 4)
    assert header.metrics[EXTRACTOR_ROUND] == 3
    other = send(fuser, "d1", W1, encode(pack(trained(W1, 2))))
    assert fuse(fuser, W1, base, [other, predictor], 5)[1].metrics[EXTRACTOR_ROUND] == 5


def test_in_a_mixed_round_predictors_are_fused_over_all_and_the_rest_over_who_sent_it(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    ones = {name: np.ones_like(array) for name, array in tensors_of(fuser, base).items()}
    rows = [
        send(fuser, "d0", FP32, encode(ones), examples=1),
        send(
            fuser, "d1", FP32, encode({n: 3 * a for n, a in ones.items() if n.startswith("predictor")}), "predictor", 1
        ),
    ]
    for name, array in tensors_of(fuser, fuse(fuser, FP32, base, rows)[0]).items():
        assert (array == (2 if name.startswith("predictor") else 1)).all(), name


def test_a_graph_is_fused_by_the_names_of_its_weights(fuser: Fuser) -> None:
    base, _ = fuser.start(W1, SEED)
    model = trained(W1, 7).eval()
    graph = export_onnx(model, model.example_input(2)).data
    digest, _ = fuse(fuser, W1, base, [send(fuser, "d0", W1, graph, "onnx")])
    expected = pack_state(unpack(pack(model, floats="fp32")), floats="fp16")
    assert open_artifact(fuser.blobs.read(digest))[1] == encode(expected)


def test_a_header_names_as_many_parents_as_fit(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    row = send(fuser, "d0", FP32, encode(pack(trained(FP32, 0), floats="fp32")))
    _, header = fuse(Fuser(fuser.blobs, fuser.key, FLEET), FP32, base, [row] * 950)
    assert len(header.parents) == 900


def test_the_artifact_loads_into_its_prototype(fuser: Fuser) -> None:
    digest, _ = fuser.start(W1, SEED)
    model = build(W1)
    load_packed(model, tensors_of(fuser, digest))
    assert payload_of(fuser.blobs.read(digest))


def test_a_score_that_is_not_finite_does_not_stop_the_round(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    wild = {name: np.full_like(array, 1e30) for name, array in tensors_of(fuser, base).items()}
    _, header = fuse(fuser, FP32, base, [send(fuser, "d0", FP32, encode(wild))])
    assert "accuracy" in header.metrics
    assert "loss" not in header.metrics


def test_a_generator_is_published_like_a_model_and_counts_come_from_the_updates(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    rows = [send(fuser, f"d{n}", FP32, encode(pack(trained(FP32, n), floats="fp32"))) for n in range(2)]
    recipe = find_recipe("fedgen", {"generator_hidden": 8, "generator_steps": 3, "generator_noise_width": 4})
    made, fused = fuser.fuse(recipe, 1, [StoredGroup(spec=FP32, base=base, rows=rows)], Memory())
    assert [header.prototype for _, header in made] == ["mlp:fp32", "generator:paper"]
    header, body = open_artifact(fuser.blobs.read(made[1][0]))
    assert (header.round, header.recipe, header.input_shape, header.classes, header.latent) == (1, "fedgen", (4,), 3, 8)
    assert decode(body)["labels"].tolist() == pytest.approx([1 / 3] * 3, abs=1e-3)  # they tell none: all alike
    assert fused.side_artifact is not None
    assert fuser.fuse(recipe, 1, [StoredGroup(spec=FP32, base=base, rows=rows)], Memory())[0] == made


def test_logits_alone_leave_every_model_as_it_was(fuser: Fuser) -> None:
    base, _ = fuser.start(FP32, SEED)
    rows = [
        send(fuser, f"d{n}", FP32, encode({"label-logits": np.full((3, 3), n, np.float32)}), "logits") for n in range(2)
    ]
    made, _ = fuser.fuse(find_recipe("feddistill"), 1, [StoredGroup(spec=FP32, base=base, rows=rows)], Memory())
    (model, _), (logits, header) = made
    assert header.prototype == "label-logits:mean"
    assert np.unique(tensors_of(fuser, logits)["label-logits"]).tolist() == [0.5]
    before, after = tensors_of(fuser, base), tensors_of(fuser, model)
    assert all(np.array_equal(before[name], after[name]) for name in before)
