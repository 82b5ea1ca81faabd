"""The receiving end of a transfer."""

import sys
import tracemalloc
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import TransferError
from tests.sender import FileStorage, Sender, content_of, describe
from wire.chunks import Content, decode_chunk
from wire.ids import digest_of
from wire.messages import Missing
from wire.storage import MemoryStorage
from wire.transfer import Receiver

pytestmark = pytest.mark.light


def sender_of(data: bytes, *, chunk_size: int = 4, **options) -> Sender:
    return Sender(content_of(data, chunk_size=chunk_size), MemoryStorage(data), **options)


def receiver_for(sender: Sender) -> tuple[Receiver, bytearray]:
    data = bytearray()
    return Receiver(sender.content, MemoryStorage(data)), data


CONTENTS = st.binary(max_size=120)


@given(CONTENTS, st.integers(1, 9), st.data())
def test_any_order_with_losses_and_duplicates_completes_once_the_missing_are_resent(data, chunk_size, draw):
    sender = sender_of(data, chunk_size=chunk_size)
    receiver, received = receiver_for(sender)
    count = sender.content.count
    arrivals = draw.draw(st.lists(st.integers(0, count - 1), max_size=2 * count))
    for n in arrivals:
        receiver.accept(sender.chunk(n))
    assert receiver.complete is (set(arrivals) == set(range(count)))
    for start, stop in receiver.missing():
        for n in range(start, stop):
            assert n not in arrivals
            assert receiver.accept(sender.chunk(n))
    assert receiver.missing() == ()
    receiver.finish()
    assert received == data


@given(CONTENTS, st.integers(1, 9), st.data())
def test_a_receiver_can_be_saved_and_restored_at_any_point(data, chunk_size, draw):
    sender = sender_of(data, chunk_size=chunk_size)
    receiver, received = receiver_for(sender)
    for n in draw.draw(st.permutations(range(sender.content.count))):
        if draw.draw(st.booleans()):
            before = receiver.missing()
            receiver = Receiver.restore(receiver.save(), MemoryStorage(received))
            assert receiver.missing() == before
        assert receiver.accept(sender.chunk(n))
    receiver.finish()
    assert received == data


@settings(deadline=None)
@given(CONTENTS, st.integers(1, 9), st.integers(1, 5), st.integers())
def test_a_lossy_link_with_restarts_on_both_sides_ends_with_the_content(data, chunk_size, window, seed):
    """The network drops, repeats and reorders chunks and drops PUBACKs; both ends crash now and then."""
    random = Random(seed)
    sender = sender_of(data, chunk_size=chunk_size, window=window)
    receiver, received = receiver_for(sender)
    while not receiver.complete:
        for n in random.sample(numbers := sender.next(), len(numbers)):
            for _ in range(random.choice([0, 1, 1, 2])):
                receiver.accept(sender.chunk(n))
            if random.random() < 0.8:
                sender.acked(n)
        fate = random.random()
        if fate < 0.2:
            sender = sender_of(data, chunk_size=chunk_size, window=window)
            sender.resume(receiver.missing())  # from the first chunk, it would hardly ever come to the last
        elif fate < 0.4:
            receiver = Receiver.restore(receiver.save(), MemoryStorage(received))
        elif fate < 0.7:
            sender.reconnected()
        sender.resend(receiver.missing())
    receiver.finish()
    assert received == data


def test_a_repeated_chunk_is_not_stored_twice():
    sender = sender_of(b"abcdefgh")
    receiver, received = receiver_for(sender)
    assert receiver.accept(sender.chunk(0))
    received[:4] = b"????"
    assert not receiver.accept(sender.chunk(0))
    assert received[:4] == b"????"


def test_a_flipped_chunk_is_refused_and_asked_for_again():
    sender = sender_of(b"abcdefgh")
    receiver, received = receiver_for(sender)
    receiver.accept(sender.chunk(0))
    damaged = bytearray(sender.chunk(1))
    damaged[-1] ^= 1
    with pytest.raises(TransferError, match=r"chunk 1 of .*damaged"):
        receiver.accept(bytes(damaged))
    assert receiver.missing() == ((1, 2),)
    receiver.accept(sender.chunk(1))
    receiver.finish()
    assert received == b"abcdefgh"


def test_a_chunk_of_another_content_is_refused_and_changes_nothing():
    receiver, received = receiver_for(sender_of(b"abcdefgh"))
    for stranger in (sender_of(b"ABCDEFGH"), sender_of(b"abcdefgh", chunk_size=5)):
        with pytest.raises(TransferError, match=r"chunk 0 of [0-9a-f]{12}… in the transfer of"):
            receiver.accept(stranger.chunk(0))
    assert receiver.missing() == ((0, 2),)
    assert received == b""


def test_a_chunk_checked_by_the_caller_is_accepted_as_it_is():
    sender = sender_of(b"abcd")
    receiver, received = receiver_for(sender)
    assert receiver.accept(decode_chunk(sender.chunk(0), max_size=4))
    assert received == b"abcd"


def test_whole_chunks_of_a_false_digest_are_all_forgotten():
    """Each chunk's own hash is right, the digest of the whole was announced wrong."""
    content = Content(digest=digest_of(b"something else"), size=8, chunk_size=4)
    sender = Sender(content, MemoryStorage(b"abcdefgh"))
    receiver, _ = receiver_for(sender)
    receiver.accept(sender.chunk(0))
    receiver.accept(sender.chunk(1))
    assert receiver.complete
    with pytest.raises(TransferError, match="the whole has another digest; starting over"):
        receiver.finish()
    assert receiver.missing() == ((0, 2),)


def test_finishing_early_is_refused_and_forgets_nothing():
    sender = sender_of(b"abcdefghi")
    receiver, _ = receiver_for(sender)
    receiver.accept(sender.chunk(1))
    with pytest.raises(TransferError, match="2 chunks are still missing"):
        receiver.finish()
    assert receiver.missing() == ((0, 1), (2, 3))


def test_missing_chunks_fit_an_ack_however_scattered():
    sender = sender_of(bytes(6000), chunk_size=1)
    receiver, _ = receiver_for(sender)
    for n in range(0, 6000, 2):
        receiver.accept(sender.chunk(n))
    ranges = receiver.missing()
    assert ranges[:2] == ((1, 2), (3, 4))
    assert len(ranges) == 1024
    Missing(transfer="t", ranges=ranges)
    assert receiver.missing(limit=1) == ((1, 2),)


def test_bytes_that_were_saved_but_never_reached_the_disk_are_asked_for_again(tmp_path):
    path = tmp_path / "part"
    sender = sender_of(b"abcdefghijkl")
    with path.open("w+b") as file:
        receiver = Receiver(sender.content, FileStorage(file))
        for n in range(3):
            receiver.accept(sender.chunk(n))
        state = receiver.save()
    path.write_bytes(b"abcd\0\0\0\0ij")  # chunk 1 lost, chunk 2 cut short
    with path.open("r+b") as file:
        receiver = Receiver.restore(state, FileStorage(file))
        assert receiver.missing() == ((1, 3),)
        receiver.accept(sender.chunk(2))
        receiver.accept(sender.chunk(1))
        receiver.finish()
    assert path.read_bytes() == b"abcdefghijkl"


def test_a_spoiled_state_is_refused():
    sender = sender_of(b"abcdefgh")
    receiver, received = receiver_for(sender)
    receiver.accept(sender.chunk(1))
    fields = msgspec.msgpack.decode(receiver.save())
    storage = MemoryStorage(received)
    bad = [b"", b"junk", receiver.save()[:-1]]
    for index, value in [(0, 2), (1, "abc"), (2, -1), (3, 0), (4, [[0, 9]]), (4, [[1, 1]]), (4, []), (5, b"short")]:
        bad.append(msgspec.msgpack.encode([*fields[:index], value, *fields[index + 1 :]]))
    for state in bad:
        with pytest.raises(TransferError, match="saved transfer"):
            Receiver.restore(state, storage)


def test_twelve_megabytes_from_file_to_file_need_no_copy_in_memory(tmp_path):
    size = 12_000_000
    (tmp_path / "out").write_bytes(bytes(range(250)) * (size // 250))
    tracemalloc.start()
    try:
        with (tmp_path / "out").open("rb") as out, (tmp_path / "in").open("w+b") as into:
            source = FileStorage(out)
            sender = Sender(describe(source, size), source)
            receiver = Receiver(sender.content, FileStorage(into))
            while numbers := sender.next():
                for n in numbers:
                    receiver.accept(sender.chunk(n))
                    sender.acked(n)
            receiver.finish()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
    assert (tmp_path / "in").read_bytes() == (tmp_path / "out").read_bytes()


# ---- what it costs


def lines_run(count: int) -> int:
    """Lines of wire/ that a transfer of `count` chunks takes, in a scattered order, asked each time what it lacks."""
    sender = sender_of(bytes(count), chunk_size=1)
    receiver, _ = receiver_for(sender)
    chunks = [decode_chunk(sender.chunk(n)) for n in [*range(0, count, 2), *range(1, count, 2)]]
    lines = 0

    def trace(frame, event, _arg):
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_globals["__name__"].startswith("wire.") else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for chunk in chunks:
            receiver.accept(chunk)
            receiver.missing(limit=64)
    finally:
        sys.settrace(before)
    assert receiver.complete
    return lines


def test_what_a_chunk_costs_does_not_grow_with_their_number():
    assert lines_run(16 * 128) < 1.2 * 16 * lines_run(128)
