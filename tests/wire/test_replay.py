"""Seen before, or new."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import EnvelopeError
from wire.envelope import Envelope
from wire.replay import ReplayGuard

pytestmark = pytest.mark.light


def envelope(nonce: int, *, number: int = 1, sender: str = "pi", kind: str = "update") -> Envelope:
    return Envelope(kind=kind, sender=sender, round=number, nonce=nonce.to_bytes(12, "big"), payload=b"")


def test_a_repetition_is_told_from_a_new_envelope():
    guard = ReplayGuard()
    assert guard.admit(envelope(1))
    assert not guard.admit(envelope(1))
    assert guard.admit(envelope(2))
    assert not guard.admit(envelope(1))


def test_senders_and_kinds_do_not_disturb_each_other():
    guard = ReplayGuard()
    assert guard.admit(envelope(1, number=90))
    assert guard.admit(envelope(1, number=1, sender="pi-2"))
    assert guard.admit(envelope(1, number=0, kind="state"))


def test_a_round_long_over_is_refused_and_its_nonces_are_forgotten():
    guard = ReplayGuard(keep_rounds=2)
    for number in (1, 2, 3):
        assert guard.admit(envelope(number, number=number))
    assert len(guard) == 2
    with pytest.raises(EnvelopeError, match="update of 'pi': round 1 is over, 2 is the oldest kept"):
        guard.admit(envelope(1, number=1))
    assert not guard.admit(envelope(2, number=2))


def test_when_memory_is_full_the_oldest_round_is_given_up_not_opened_to_replay():
    guard = ReplayGuard(keep_rounds=5, max_nonces=3)
    guard.admit(envelope(1, number=1))
    guard.admit(envelope(2, number=1))
    guard.admit(envelope(3, number=2))
    guard.admit(envelope(4, number=2))
    assert len(guard) == 2
    with pytest.raises(EnvelopeError, match="round 1 is over"):
        guard.admit(envelope(1, number=1))


def test_a_single_round_forgets_its_oldest_nonce_when_full():
    guard = ReplayGuard(max_nonces=2)
    for nonce in (1, 2, 3):
        assert guard.admit(envelope(nonce, number=0))
    assert len(guard) == 2
    assert not guard.admit(envelope(2, number=0))
    assert not guard.admit(envelope(3, number=0))


def test_the_number_of_streams_is_bounded():
    guard = ReplayGuard(max_streams=2)
    guard.admit(envelope(1, sender="a"))
    guard.admit(envelope(1, sender="b"))
    with pytest.raises(EnvelopeError, match="over 2 senders"):
        guard.admit(envelope(1, sender="c"))
    assert guard.admit(envelope(2, sender="a"))


def test_limits_of_nothing_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        ReplayGuard(max_nonces=0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=80))
def test_no_envelope_is_admitted_twice_and_memory_stays_bounded(arrivals):
    guard = ReplayGuard(keep_rounds=3, max_nonces=1000)
    admitted = []
    for nonce, number in arrivals:
        try:
            if guard.admit(envelope(nonce, number=number)):
                admitted.append((nonce, number))
        except EnvelopeError:
            assert number <= max(n for _, n in admitted) - 3
    assert len(admitted) == len(set(admitted))
    assert len(guard) <= 3 * 31


@given(st.lists(st.integers(0, 12), max_size=80))
def test_memory_is_bounded_whatever_the_rounds(rounds):
    guard = ReplayGuard(keep_rounds=3, max_nonces=5)
    for nonce, number in enumerate(rounds):
        try:
            guard.admit(envelope(nonce, number=number))
        except EnvelopeError:
            continue
        assert len(guard) <= 5
