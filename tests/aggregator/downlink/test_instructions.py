"""Jobs for those who are asked, offers for the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aggregator.conductor import Conductor
from aggregator.downlink.instructions import instructions, named_artifacts
from aggregator.rounds.events import AboutHeard, Revoked, Stored, Tick
from aggregator.rounds.state import Phase
from tests.aggregator.journals import a_model, an_update, digest
from wire.codec import decode_instruction, encode_message
from wire.messages import Job, Offer

pytestmark = pytest.mark.light


def test_jobs_and_offers_name_their_device_the_epoch_and_the_number_of_the_model(conductor: Conductor) -> None:
    for device in "ab":
        conductor.feed(AboutHeard(device, "mlp:fp32"))
    told = instructions(conductor.state, conductor.journal, conductor.epoch)
    number = conductor.journal.current()["mlp:fp32"].number
    assert number == 1
    job, offer = told["b"], told["a"]
    assert (type(job), job.device, job.epoch, job.number) == (Job, "b", 5, number)
    assert (type(offer), offer.device, offer.epoch, offer.number) == (Offer, "a", 5, number)


def test_a_revoked_device_is_told_nothing_and_one_without_a_model_is_left_out(conductor: Conductor) -> None:
    conductor.feed(AboutHeard("a", "mlp:fp32"))
    conductor.feed(Revoked("a"), lambda: conductor.journal.note_device("a", revoked=1))
    conductor.feed(AboutHeard("c", "cnn:w1"))
    told = instructions(conductor.state, conductor.journal, conductor.epoch)
    assert told["a"] is None
    assert "c" not in told
    assert named_artifacts(conductor.state, conductor.journal) == {digest("m"): 100}


def test_a_device_keeps_its_job_until_there_is_a_newer_model_or_another_job(asynchronous: Conductor) -> None:
    def told() -> dict[str, Job | Offer | None]:
        return instructions(asynchronous.state, asynchronous.journal, asynchronous.epoch)

    journal, first = asynchronous.journal, told()
    assert all((type(first[name]), first[name].round, first[name].deadline) == (Job, 1, 105.0) for name in "abc")
    asynchronous.state = replace(asynchronous.state, rules=replace(asynchronous.state.rules, concurrency=2))
    job = asynchronous.state.working["a"]
    journal.add_update(an_update("a", 1, job=job.number))
    asynchronous.feed(Stored("a", 1, job.number))
    asynchronous.feed(Tick(6.0))
    assert told() == first
    newer = a_model("newer", number=1, origin="fused")
    journal.add_model(newer)
    assert (type(told()["a"]), told()["a"].model, told()["b"]) == (Offer, newer.digest, first["b"])
    assert first["b"].model in named_artifacts(asynchronous.state, journal)  # b may still be fetching it
    asynchronous.state = replace(asynchronous.state, phase=Phase.FUSING)
    assert told()["a"] == first["a"]  # a newer one is about to be made


def test_jobs_of_one_round_differ_in_their_seeds_so_that_agents_tell_them_apart(asynchronous: Conductor) -> None:
    def of_a() -> Job:
        job = instructions(asynchronous.state, asynchronous.journal, asynchronous.epoch)["a"]
        assert isinstance(job, Job)
        return job

    first, number = of_a(), asynchronous.state.working["a"].number
    asynchronous.journal.add_update(an_update("a", 1, job=number))
    asynchronous.feed(Stored("a", 1, number))
    asynchronous.feed(Tick(6.0))
    second = of_a()
    assert (first.round, first.model, first.hyper.seed) == (second.round, second.model, 3)
    assert second.hyper.seed != 3
    assert decode_instruction(encode_message(second)) == second
