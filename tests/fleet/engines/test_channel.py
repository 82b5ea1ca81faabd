"""Frames between two ends: through pipes, through shared memory, and when one end is gone."""

from __future__ import annotations

import threading

import pytest

from fleet.engines.channel import PIPE_BYTES, Channel, connected
from fleet.engines.slots import COUNT, LEAST


def closed(*ends: Channel) -> None:
    for end in ends:
        end.close()
        end.close()  # more than once is fine


def test_frames_come_in_order_with_all_that_they_hold() -> None:
    ours, theirs = connected(LEAST)
    ours.send("one", {"a": [1, None, "x"]}, [b"", b"small", b"l" * LEAST])
    theirs.send("other", {})
    ours.send("two", {}, [bytearray(b"abc"), memoryview(b"def")])
    first, second = theirs.receive(), theirs.receive()
    assert (first.kind, first.facts) == ("one", {"a": [1, None, "x"]})
    assert [bytes(blob) for blob in first.blobs] == [b"", b"small", b"l" * LEAST]
    assert [bytes(blob) for blob in second.blobs] == [b"abc", b"def"]
    assert ours.receive().kind == "other"
    closed(ours, theirs)


def test_large_blobs_wait_in_slots_until_they_are_released_and_others_take_the_pipe() -> None:
    ours, theirs = connected(LEAST)
    for n in range(COUNT + 1):
        ours.send("blob", {}, [bytes([n]) * LEAST])
    frames = [theirs.receive() for _ in range(COUNT + 1)]
    assert [type(frame.blobs[0]) for frame in frames] == [memoryview] * COUNT + [bytearray]
    assert [frame.blobs[0][0] for frame in frames] == list(range(COUNT + 1))
    frames[1].release()
    frames[COUNT].release()  # that had no slot
    ours.send("blob", {}, [b"x" * LEAST])
    assert theirs.receive().blobs[0] == b"x" * LEAST
    assert frames[1].blobs[0] == b"x" * LEAST  # its memory was used again
    assert frames[0].blobs[0] == bytes(LEAST)
    closed(ours, theirs)


def test_a_blob_larger_than_slot_and_pipe_comes_in_pieces() -> None:
    ours, theirs = connected(LEAST)
    blob = bytes(range(256)) * (3 * PIPE_BYTES // 256)
    sending = threading.Thread(target=ours.send, args=("big", {}, [blob]))
    sending.start()
    assert theirs.receive().blobs[0] == blob
    sending.join()
    closed(ours, theirs)


def test_an_end_that_is_gone_is_noticed() -> None:
    ours, theirs = connected(LEAST)
    theirs.close()
    with pytest.raises(EOFError):
        ours.receive()
    with pytest.raises(BrokenPipeError):
        ours.send("anybody", {}, [b"?"])
    ours.close()
