"""Jobs for those who are asked, offers for the others."""

from __future__ import annotations

import pytest

from aggregator.conductor import Conductor
from aggregator.downlink.instructions import instructions, named_artifacts
from aggregator.rounds.events import AboutHeard, Revoked
from tests.aggregator.journals import digest
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
