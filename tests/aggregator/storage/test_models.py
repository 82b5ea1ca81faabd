"""Models: found, put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.models import find_model, model_facts, roll_back
from aggregator.storage.rows import ModelRow
from aggregator.worker.fuse_round import Fuser
from core.errors import ConfigError
from models.spec import PrototypeSpec, parse_prototype
from tests.aggregator.journals import a_model, digest
from tests.aggregator.scripted import FLEET, key_of
from wire.ids import AGGREGATOR

KEY = key_of(AGGREGATOR)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


def published(journal: Journal, blobs: Blobs, prototype: str, seed: int) -> ModelRow:
    spec = PrototypeSpec(*parse_prototype(prototype), (1, 8, 8), 3, 8)
    made, header = Fuser(blobs, KEY, FLEET).start(spec, seed)
    row = a_model(prototype=prototype, number=seed, metrics={"accuracy": seed / 10})
    row = ModelRow(**{n: getattr(row, n) for n in ModelRow.__slots__} | {"digest": made, "parents": header.parents})
    journal.add_model(row)
    return row


def test_a_model_is_found_by_prototype_number_or_digest(journal: Journal) -> None:
    for name in ("m1", "m2"):
        journal.add_model(a_model(name))
    assert find_model(journal, "mlp:fp32").digest == digest("m2")
    assert find_model(journal, "1").digest == digest("m1")
    assert find_model(journal, digest("m1")[:6]).digest == digest("m1")
    for wrong in ("", "zzz", "99", "cnn:w1"):
        with pytest.raises(ConfigError, match=r"no model called '.*'; give a prototype \(mlp:fp32\), a number or more"):
            find_model(journal, wrong)


def test_a_beginning_that_several_digests_have_is_not_enough(journal: Journal) -> None:
    for start in ("a", "b"):
        row = a_model(start)
        journal.add_model(
            ModelRow(**{n: getattr(row, n) for n in ModelRow.__slots__} | {"digest": "ab" + start + "0" * 61})
        )
    with pytest.raises(ConfigError, match="several models called 'ab'"):
        find_model(journal, "ab")


def test_facts_are_plain_values(journal: Journal) -> None:
    journal.add_model(a_model(metrics={"accuracy": 0.5}))
    facts = model_facts(journal.current()["mlp:fp32"], current=True)
    assert (facts["number"], facts["current"], facts["metrics"], facts["parents"]) == (1, True, {"accuracy": 0.5}, [])


def test_a_rollback_is_a_new_artifact_with_the_old_tensors(journal: Journal, blobs: Blobs) -> None:
    old, newer = (published(journal, blobs, "mlp:fp32", seed) for seed in (1, 2))
    with journal.transaction():
        row = roll_back(journal, blobs, "1", key=KEY, fleet=FLEET, number=7, now=50.0)
    assert journal.current()["mlp:fp32"].digest == row.digest
    assert row.digest not in (old.digest, newer.digest)
    header, body = open_artifact(blobs.read(row.digest))
    assert body == open_artifact(blobs.read(old.digest))[1]
    assert (header.round, header.recipe, header.parents) == (7, "rollback", (newer.digest, old.digest))
    assert (row.origin, row.metrics, row.created) == ("rollback", {"accuracy": 0.1}, 50.0)


def test_the_newest_model_cannot_be_rolled_back_to(journal: Journal, blobs: Blobs) -> None:
    published(journal, blobs, "mlp:fp32", 1)
    with pytest.raises(ConfigError, match="is the newest of mlp:fp32 already"):
        roll_back(journal, blobs, "mlp:fp32", key=KEY, fleet=FLEET, number=7, now=50.0)
