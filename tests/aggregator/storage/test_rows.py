"""Records whose columns hold two things: a refusal's text and code, an answer and whether it failed."""

from __future__ import annotations

import pytest

from aggregator.storage.rows import Answer, Refusal
from wire.refusals import RefusalReason

pytestmark = pytest.mark.light
ROW = {"device": "a", "transfer": "t", "round": 3, "time": 4.0}


@pytest.mark.parametrize("why", [None, *RefusalReason])
def test_a_refusal_comes_back_from_its_columns(why: RefusalReason | None) -> None:
    refusal = Refusal(**ROW, reason="late: round 3 is closed", why=why)
    assert Refusal.read({**ROW, "reason": refusal.stored_reason}) == refusal


def test_the_column_of_a_refusal_is_its_text_then_its_code() -> None:
    late = Refusal(**ROW, reason="late", why=RefusalReason.LATE)
    assert late.stored_reason == "late\x1flate"
    assert Refusal(**ROW, reason="late").stored_reason == "late"  # as journals of older versions have it


def test_a_code_of_a_newer_version_is_read_as_other() -> None:
    assert Refusal.read({**ROW, "reason": "too hot\x1ftoo-hot"}).why is RefusalReason.OTHER


@pytest.mark.parametrize("answer", [Answer("revoked"), Answer("no such device", failed=True), Answer("", failed=True)])
def test_an_answer_comes_back_from_its_column(answer: Answer) -> None:
    assert Answer.read(answer.stored) == answer


def test_the_column_of_a_failed_answer_says_so() -> None:
    assert Answer("no such device", failed=True).stored == "error: no such device"
