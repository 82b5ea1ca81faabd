"""What is older than what was followed, and the keys of jobs and offers."""

import pytest

from edge_agent.protocol.replay import Newest, epoch_of, instruction_key, plain_key, round_of
from wire.messages import Hyper, Job, Offer

pytestmark = pytest.mark.light
HYPER = Hyper(batch_size=8, lr=0.1, epochs=1)


def job(round_: int = 3, epoch: int = 7, number: int = 5, **other: object) -> Job:
    facts = {"deadline": 1e9, "prototype": "cnn:w1", "update": "state", "hyper": HYPER, "model": "a" * 64}
    return Job(**{"round": round_, "epoch": epoch, "number": number, **facts, **other})


def offer(epoch: int = 7, number: int = 5, **other: object) -> Offer:
    return Offer(**{"round": 2, "prototype": "cnn:w1", "model": "b" * 64, "epoch": epoch, "number": number, **other})


NEWEST = Newest(epoch=7, round=3, numbers={"cnn:w1": 5})


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (job(), ""),
        (job(4, number=6), ""),
        (job(2), "round 3 was begun before"),
        (job(4, number=4), "its model 4 is older than 5"),
        (job(9, epoch=6, number=9), "its epoch 6 is older than 7"),
        (job(1, epoch=8, number=1), ""),
        (offer(), ""),
        (offer(number=4), "its model 4 is older than 5"),
        (offer(number=1, prototype="mlp:w1"), ""),
        (offer(epoch=0, number=9), "its epoch 0 is older than 7"),
    ],
)
def test_what_is_older_is_refused_by_epoch_then_round_then_model(new: Job | Offer, words: str) -> None:
    refusal = NEWEST.refusal(new)
    assert words in refusal
    assert bool(refusal) == bool(words)


def test_what_is_followed_becomes_the_newest() -> None:
    assert NEWEST.after(job(4, number=6), mine=True) == Newest(epoch=7, round=4, numbers={"cnn:w1": 6})
    assert NEWEST.after(job(4, number=6), mine=False) == Newest(epoch=7, round=4, numbers={"cnn:w1": 5})
    assert NEWEST.after(offer(number=6), mine=True) == Newest(epoch=7, round=3, numbers={"cnn:w1": 6})


def test_a_newer_epoch_counts_rounds_and_numbers_anew() -> None:
    assert NEWEST.after(job(1, epoch=8, number=1), mine=True) == Newest(epoch=8, round=1, numbers={"cnn:w1": 1})
    assert NEWEST.after(offer(epoch=8, number=1), mine=False) == Newest(epoch=8)


def test_a_key_tells_epoch_and_round_and_sorts_by_them() -> None:
    keys = [instruction_key(job(*of)) for of in ((2, 7), (10, 7), (1, 8))]
    assert keys == sorted(keys)
    assert [(epoch_of(key), round_of(key)) for key in keys] == [(7, 2), (7, 10), (8, 1)]
    assert (epoch_of("offer-" + "b" * 32), round_of("../../etc")) == (None, 0)


def test_a_key_depends_on_the_work_and_not_on_deadline_or_number() -> None:
    key = instruction_key(job())
    assert key == instruction_key(job(deadline=5.0, number=9, device="pi-1"))
    others = ({"model": "c" * 64}, {"update": "predictor"}, {"hyper": Hyper(batch_size=8, lr=0.2, epochs=1)})
    assert key not in [instruction_key(job(**other)) for other in others]
    assert instruction_key(offer(round=9, number=8)) == instruction_key(offer()) == f"e{7:016d}-offer-{'b' * 32}"


def test_without_its_epoch_a_key_is_the_one_of_older_versions() -> None:
    assert plain_key(instruction_key(job())) == instruction_key(job(epoch=0))
    assert plain_key(instruction_key(job(epoch=0))) == instruction_key(job(epoch=0))
    assert epoch_of(instruction_key(job(epoch=0))) is None
