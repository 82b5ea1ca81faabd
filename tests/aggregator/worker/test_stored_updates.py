"""Accepted updates as fusion takes them: read from their blobs, when asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from aggregator.storage.artifacts import seal_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.rows import UpdateRow
from aggregator.worker.stored_updates import base_arrays, received
from models.roles import LABEL_LOGITS
from tests.aggregator.journals import an_update
from tests.aggregator.scripted import FLEET, key_of, seal_update
from wire.headers import encode_update
from wire.ids import AGGREGATOR
from wire.messages import ModelHeader, UpdateHeader
from wire.tensors import Packed, Tensor, encode

BASE = {"extractor.w": np.array([[1.0, 2.0]], np.float32), "predictor.bias": np.array([3.0], np.float32)}


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


def stored(blobs: Blobs, tensors: Mapping[str, Tensor], kind: str = "state", counts: tuple[int, ...] = ()) -> UpdateRow:
    header = UpdateHeader(
        round=1, device="a", prototype="mlp:w1", update=kind, num_examples=5, label_counts=counts, base=None
    )
    sealed = seal_update("a", encode_update(header, encode(tensors)), 1)
    return an_update("a", 1, digest=blobs.put(sealed), kind=kind)


def values(state: Mapping[str, object]) -> dict[str, list]:
    return {name: tensor.tolist() for name, tensor in state.items()}


def test_nothing_is_read_before_its_tensors_are_asked_for(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    row, read, real = stored(blobs, BASE, counts=(2, 3)), [], Blobs.read
    monkeypatch.setattr(Blobs, "read", lambda self, digest: (read.append(digest), real(self, digest))[1])
    update = received(row, blobs, BASE)
    assert (update.device, update.num_examples, update.label_counts, read) == ("a", 5, (), [])
    update.state()
    update.state()
    assert read == [row.digest] * 2
    assert received(row, blobs, BASE, label_counts=True).label_counts == (2, 3)


def test_levels_come_as_the_values_that_they_stand_for(blobs: Blobs) -> None:
    signs = Packed(bits=1, levels=np.array([[1, -1]], np.int8), scale=np.array(0.5, np.float16))
    update = received(stored(blobs, {**BASE, "extractor.w": signs}), blobs, BASE)
    assert values(update.state()) == {"extractor.w": [[0.5, -0.5]], "predictor.bias": [3.0]}


def test_a_delta_is_added_to_its_base(blobs: Blobs) -> None:
    delta = {"extractor.w": np.array([[0.5, -1.0]], np.float32), "predictor.bias": np.array([1.0], np.float32)}
    update = received(stored(blobs, delta, "delta"), blobs, BASE)
    assert values(update.state()) == {"extractor.w": [[1.5, 1.0]], "predictor.bias": [4.0]}
    assert BASE["predictor.bias"].tolist() == [3.0]


@pytest.mark.parametrize(
    ("kind", "names", "predictor_only", "model"),
    [("predictor", ["predictor.bias"], True, True), ("logits", [], False, False), ("none", [], False, False)],
)
def test_the_kind_says_what_there_is(
    blobs: Blobs, kind: str, names: list[str], predictor_only: bool, model: bool
) -> None:
    logits = {LABEL_LOGITS: np.eye(2, dtype=np.float32)} if kind == "logits" else {}
    update = received(stored(blobs, {**{name: BASE[name] for name in names}, **logits}, kind), blobs, BASE, late=True)
    assert (update.predictor_only, update.model, update.late) == (predictor_only, model, True)
    assert list(update.state()) == names
    assert list(update.extra()) == list(logits)


def test_a_base_is_the_published_model_as_arrays() -> None:
    header = ModelHeader(round=0, prototype="mlp:w1", input_shape=(2,), classes=2, latent=2, recipe="start")
    signs = Packed(bits=1, levels=np.array([[1, -1]], np.int8), scale=np.array(2, np.float16))
    sealed = seal_artifact(header, encode({**BASE, "extractor.w": signs}), key=key_of(AGGREGATOR), fleet=FLEET)
    assert values(base_arrays(sealed)) == {"extractor.w": [[2.0, -2.0]], "predictor.bias": [3.0]}
