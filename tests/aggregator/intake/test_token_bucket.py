"""Buckets fill with time, give what they have, and may be owed."""

import pytest

from aggregator.intake.token_bucket import Account, TokenBucket

pytestmark = pytest.mark.light


def test_a_new_bucket_has_a_minutes_worth_and_then_so_many_a_minute() -> None:
    bucket = TokenBucket(60, now=0.0)
    assert [bucket.take(1, 0.0) for _ in range(61)] == [True] * 60 + [False]
    assert [bucket.take(1, 5.0) for _ in range(6)] == [True] * 5 + [False]


def test_it_never_has_more_than_its_burst_however_long_nobody_takes() -> None:
    bucket = TokenBucket(60, now=0.0, burst=10)
    assert bucket.level(10_000.0) == 10
    assert sum(bucket.take(1, 10_000.0) for _ in range(20)) == 10


def test_a_bucket_that_is_not_empty_gives_more_than_it_has_and_is_owed_the_rest() -> None:
    bucket = TokenBucket(60, now=0.0)
    assert bucket.take(100, 0.0)
    assert bucket.level(0.0) == -40
    assert not bucket.take(1, 39.0)
    assert bucket.take(1, 41.0)


def test_who_is_refused_pays_nothing() -> None:
    bucket = TokenBucket(60, now=0.0)
    bucket.spend(60, 0.0)
    for _ in range(1000):
        assert not bucket.take(1, 0.0)
    assert bucket.take(1, 1.0)


def test_a_clock_that_goes_back_gives_nothing_twice() -> None:
    bucket = TokenBucket(60, now=100.0)
    bucket.spend(60, 100.0)
    assert bucket.level(40.0) == 0
    bucket.spend(0, 40.0)
    assert bucket.level(100.0) == 0


def account() -> Account:
    return Account({"messages": TokenBucket(2, 0.0), "bytes": TokenBucket(100, 0.0)})


def test_an_account_takes_of_all_kinds_or_of_none() -> None:
    mine = account()
    assert mine.take(0.0, {"messages": 1, "bytes": 200})
    assert not mine.take(0.0, {"messages": 1, "bytes": 1})
    assert mine.buckets["messages"].level(0.0) == 1
    assert (mine.dropped, dict(mine.news)) == (1, {"bytes": 1})


def test_the_log_is_told_at_once_and_then_once_a_minute() -> None:
    mine = account()
    assert mine.tell(0.0) == ""
    for _ in range(5):
        mine.take(0.0, {"messages": 1})
    assert mine.tell(0.0) == "over its budget (messages): 3 messages dropped unread"
    mine.drop("bytes", 7, 30.0)
    assert (mine.tell(30.0), mine.tell(59.0)) == ("", "")
    assert mine.tell(61.0) == "over its budget (bytes): 7 messages dropped unread"
    assert (mine.tell(200.0), mine.dropped) == ("", 10)
