"""Which chunks of a model are subscribed to, and when again."""

import pytest

from edge_agent.protocol.download import MAX_STALL_S, STALL_S, WINDOW, Download
from edge_agent.protocol.events import CheckModel, Subscribe, Unsubscribe

pytestmark = pytest.mark.light
A = "a" * 64


def begun(count: int) -> Download:
    """Connected at 0, and chunk 0 of `count` stored."""
    download = Download(A)
    download.resumed(None, (), 0.0, online=True)
    download.stored(0, count, 0.0)
    return download


def test_chunk_0_tells_how_many_there_are_and_a_window_of_them_is_asked_for() -> None:
    download = Download(A)
    assert download.resumed(None, (), 0.0, online=True) == [Subscribe(A, (0,))]
    assert download.stored(0, 100, 0.0) == [Unsubscribe(A, (0,)), Subscribe(A, tuple(range(1, 1 + WINDOW)))]


def test_the_window_is_filled_again_when_half_of_it_has_come_and_never_exceeded() -> None:
    download, asked = begun(100), set(range(1, 1 + WINDOW))
    for n in range(1, 90):
        asked.discard(n)
        for action in download.stored(n, 100, 0.0):
            if isinstance(action, Subscribe):
                assert len(asked) == WINDOW // 2
                asked |= set(action.numbers)
        assert len(asked) <= WINDOW
    assert asked


def test_the_last_chunk_has_the_whole_checked_and_a_second_copy_does_nothing() -> None:
    download = begun(2)
    assert download.stored(1, 2, 1.0) == [Unsubscribe(A, (1,)), CheckModel(A)]
    assert download.due == float("inf")
    assert download.stored(1, 2, 1.0) == []


def test_what_is_on_disk_is_not_asked_for() -> None:
    assert Download(A).resumed(5, ((1, 2), (4, 5)), 0.0, online=True) == [Subscribe(A, (1, 4))]
    assert Download(A).resumed(5, ((1, 2),), 0.0, online=False) == []
    assert Download(A).resumed(5, (), 0.0, online=False) == [CheckModel(A)]


def test_stalls_double_up_to_a_minute_and_progress_resets_them() -> None:
    download, now, waits = begun(100), 0.0, []
    for _ in range(6):
        waits.append(download.due - now)
        assert download.tick(download.due - 0.01) == []
        now = download.due
        assert download.tick(now) == [Subscribe(A, tuple(range(1, 1 + WINDOW)))]
    assert waits == [5, 10, 20, 40, 60, 60]
    assert waits[-1] == MAX_STALL_S
    download.stored(1, 100, now)
    assert download.due == now + STALL_S


def test_a_model_that_was_worthless_is_begun_anew_ever_later() -> None:
    download, waits = begun(1), []
    for now in (0.0, 100.0, 200.0, 300.0, 400.0, 500.0):
        download.failed(now)
        waits.append(download.due - now)
    assert waits == [5, 10, 20, 40, 60, 60]
    assert download.tick(download.due) == [Subscribe(A, (0,))]


def test_a_download_that_is_dropped_ends_its_subscriptions() -> None:
    assert begun(3).dropped() == [Unsubscribe(A, (1, 2))]
    assert Download(A).dropped() == []
