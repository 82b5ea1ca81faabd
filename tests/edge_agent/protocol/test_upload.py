"""Which chunk of an update is sent, and when again."""

import pytest

from edge_agent.protocol.events import SendChunk, Spooled
from edge_agent.protocol.upload import ANSWER_S, MAX_ANSWER_S, MAX_RANGES, SLOW_WINDOW, WINDOW, Upload

pytestmark = pytest.mark.light


def upload(count: int) -> Upload:
    return Upload(Spooled("key", 1, "t", count))


def numbers(actions: list[SendChunk]) -> list[int]:
    assert all(action.transfer == "t" for action in actions)
    return [action.n for action in actions]


def test_two_chunks_are_out_until_there_is_an_answer_then_six() -> None:
    up = upload(20)
    assert numbers(up.connected(0.0)) == [0, 1]
    assert len(numbers(up.missing(((2, 20),), 1.0))) == WINDOW
    assert SLOW_WINDOW == 2


def test_only_what_is_named_is_sent() -> None:
    up = upload(20)
    up.connected(0.0)
    assert numbers(up.missing(((7, 9), (15, 16)), 1.0)) == [7, 8, 15]


def test_of_what_is_out_only_a_chunk_before_one_that_has_arrived_is_lost() -> None:
    up = upload(10)
    up.connected(0.0)
    up.missing(((2, 10),), 1.0)  # 2 .. 7 go out
    assert numbers(up.missing(((2, 3), (4, 10)), 2.0)) == [2, 8]  # 3 has come, so 2 is lost; 4 .. 7 are on their way


def test_no_answer_sends_the_lowest_two_again_ever_more_slowly() -> None:
    up, now, waits = upload(9), 0.0, []
    up.connected(now)
    for _ in range(7):
        waits.append(up.due - now)
        assert up.tick(up.due - 0.01) == []
        now = up.due
        assert numbers(up.tick(now)) == [0, 1]
    assert waits == [3, 6, 12, 24, 48, 60, 60]
    assert waits[-1] == MAX_ANSWER_S
    up.missing(((2, 9),), now)
    assert up.due == now + ANSWER_S


def test_after_a_reconnection_answers_to_what_was_sent_before_are_not_heard() -> None:
    up = upload(20)
    up.connected(0.0)
    up.missing(((2, 20),), 1.0)  # 2 .. 7 go out
    assert numbers(up.connected(5.0)) == [7, 2]  # the last one that was sent, with the lowest
    assert up.missing(((4, 20),), 6.0) == []  # lacks 7, which was sent before the cut: an old answer
    assert numbers(up.missing(((8, 20),), 7.0)) == [8, 9, 10, 11, 12, 13]


def test_a_list_that_was_cut_says_nothing_of_what_comes_after() -> None:
    count = 3 * MAX_RANGES
    up = upload(count)
    up.connected(0.0)
    up.missing(tuple((2 * n, 2 * n + 1) for n in range(MAX_RANGES)), 1.0)
    assert up._lacks(count - 1)
    assert not up._lacks(3)


def test_chunks_that_do_not_exist_are_no_answer() -> None:
    up = upload(3)
    up.connected(0.0)
    assert up.missing(((2, 4),), 1.0) == []
    assert numbers(up.missing(((2, 3),), 1.0)) == [2]
