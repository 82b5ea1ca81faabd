"""Published models: numbers, the current ones, and the blobs that are still needed."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_model, a_round, an_update, asked, digest

pytestmark = pytest.mark.light


def test_the_newest_model_of_a_prototype_is_its_current_one(journal: Journal) -> None:
    for name, prototype in (("m1", "mlp:fp32"), ("c1", "cnn:w1"), ("m2", "mlp:fp32")):
        journal.add_model(a_model(name, prototype, parents=(digest("p"),), metrics={"accuracy": 0.5}))
    assert {p: m.digest for p, m in journal.current().items()} == {"cnn:w1": digest("c1"), "mlp:fp32": digest("m2")}
    assert [m.number for m in journal.models("mlp:fp32")] == [1, 3]
    assert journal.current()["mlp:fp32"].parents == (digest("p"),)
    found = journal.models_of([digest("m1"), digest("m2"), digest("unknown")])
    assert {name: model.number for name, model in found.items()} == {digest("m1"): 1, digest("m2"): 3}


def test_models_are_found_by_number_and_by_the_start_of_their_digest(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    journal.add_model(a_model("m2"))
    assert [m.digest for m in journal.find_models("2")] == [digest("m2")]
    assert [m.digest for m in journal.find_models(digest("m1")[:10])] == [digest("m1")]
    assert journal.find_models("zz") == []


def test_blobs_of_models_and_of_the_newest_rounds_are_named(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    for number in (1, 2, 3):
        journal.open_round(a_round(number, "closed"), [])
        journal.add_update(an_update("a", number))
    assert journal.named_blobs(1) == {digest("m1"), digest("a 2"), digest("a 3")}


def test_what_the_broker_holds_is_remembered(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    journal.set_retained(digest("m1"), True)
    assert journal.retained() == {digest("m1"): 100}
    journal.set_retained(digest("m1"), False)
    assert journal.retained() == {}


def test_models_have_the_numbers_of_their_publication(journal: Journal) -> None:
    for name in "abc":
        journal.add_model(replace(a_model(), digest=digest(name)))
    assert [(m.digest, m.number) for m in journal.models()] == [(digest(name), n) for n, name in enumerate("abc", 1)]


def test_models_since_a_round(journal: Journal) -> None:
    for number in (1, 2, 3):
        journal.add_model(a_model(f"m{number}", number=number))
    assert [m.round for m in journal.models(since=2)] == [2, 3]


def test_a_number_is_the_number_even_where_a_digest_begins_with_it(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    journal.add_model(replace(a_model(), digest="1" * 64))
    assert [m.number for m in journal.find_models("1")] == [1]
    assert [m.number for m in journal.find_models("11")] == [2]
    assert [m.number for m in journal.find_models("1" * 64)] == [2]


def test_a_start_that_fits_several_models_finds_them_all_and_is_no_pattern(journal: Journal) -> None:
    for last in "ab":
        journal.add_model(replace(a_model(), digest="f" * 63 + last))
    assert [m.digest[-1] for m in journal.find_models("fff")] == ["a", "b"]
    assert journal.find_models("%") == journal.find_models("f_f") == []


def test_a_model_that_is_stored_twice_is_refused_and_the_current_one_stays(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    journal.add_model(a_model("m2"))
    with pytest.raises(sqlite3.IntegrityError):
        journal.add_model(a_model("m1"))
    assert journal.current()["mlp:fp32"].digest == digest("m2")


def test_a_pruned_model_keeps_its_row_and_loses_its_blob(journal: Journal) -> None:
    for name in ("m1", "m2", "m3"):
        journal.add_model(a_model(name))
    journal.prune([1])
    journal.prune([2])
    assert journal.pruned() == {1, 2}
    assert journal.get("pruned") == "[[1, 3]]"  # ranges: a thousand rounds are a few bytes
    assert journal.named_blobs(1) == {digest("m3")}
    assert [m.number for m in journal.models()] == [1, 2, 3]
    assert [m.number for m in journal.unpruned()] == [3]


def test_pins_are_remembered(journal: Journal) -> None:
    journal.set_pin(digest("m1"), True)
    journal.set_pin(digest("m2"), True)
    journal.set_pin(digest("m1"), False)
    assert journal.pins() == {digest("m2")}


def test_no_policy_takes_what_devices_of_the_newest_rounds_have_started_from(journal: Journal) -> None:
    for name in ("m1", "m2", "m3"):
        journal.add_model(a_model(name))
    for number, model in ((1, "m1"), (2, "m2"), (5, "m2")):
        journal.open_round(a_round(number, "closed"), asked("a", model=model))
    assert journal.needed_models(1) == {digest("m2"), digest("m3")}
