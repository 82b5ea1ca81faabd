"""What the desk asks of the rounds."""

from __future__ import annotations

import pytest

from aggregator.conductor import Conductor
from aggregator.intake import open_round
from aggregator.rounds.state import Verdict
from core.errors import DeviceError, StorageError
from tests.aggregator.journals import digest
from wire.refusals import RefusalReason

pytestmark = pytest.mark.light


def test_it_is_the_engines_round_by_the_services_clock(conductor: Conductor) -> None:
    assert (conductor.open_round.number, conductor.open_round.now()) == (2, 5.0)


def test_a_late_update_is_kept_once(conductor: Conductor) -> None:
    keeps = conductor.config.round.late == "keep"
    assert conductor.open_round.judge("a", 1).refused is (RefusalReason.ALREADY_KEPT if keeps else RefusalReason.LATE)
    assert conductor.open_round.judge("b", 1).refused is (None if keeps else RefusalReason.LATE)
    assert conductor.open_round.judge("b", 2) == Verdict()


def test_who_was_asked_is_known_with_the_model_it_was_given(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    monkeypatch.setattr(conductor.blobs, "read", lambda found: reads.append(found) or b"artifact")
    monkeypatch.setattr(open_round, "published_tensors", lambda data: {"w": data})
    found = conductor.open_round.asked("b", 2)
    assert found is not None
    assert (found.prototype, found.model, found.published) == ("mlp:fp32", digest("m"), {"w": b"artifact"})
    assert conductor.open_round.asked("b", 2) == found
    assert reads == [digest("m")]  # once for all devices of a prototype
    assert conductor.open_round.asked("a", 2) is None


def test_invitations_are_read_again_once_forgotten(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor.blobs, "read", lambda _: b"")
    monkeypatch.setattr(open_round, "published_tensors", lambda _: {})
    assert conductor.open_round.asked("b", 2) is not None
    conductor.journal.withdraw(2, "b", "revoked")
    conductor.open_round.forget()
    assert conductor.open_round.asked("b", 2) is None


def test_a_damaged_blob_is_our_own_fault(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(_: bytes) -> None:
        raise DeviceError("no tensors")

    monkeypatch.setattr(conductor.blobs, "read", lambda _: b"")
    monkeypatch.setattr(open_round, "published_tensors", damaged)
    with pytest.raises(StorageError, match="is damaged in blobs: no tensors"):
        conductor.open_round.asked("b", 2)
