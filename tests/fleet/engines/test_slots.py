"""Memory that a process shares with its forked children."""

from __future__ import annotations

import os

from fleet.engines.slots import COUNT, LEAST, ROOM, Slots

BLOB = bytes(range(256)) * (LEAST // 256)


def test_a_blob_comes_back_as_it_was() -> None:
    slots = Slots(LEAST + 1)
    number = slots.put(BLOB + b"x")
    assert number is not None
    assert slots.get(number, LEAST + 1) == BLOB + b"x"


def test_slots_are_apart_and_used_again_once_they_are_free() -> None:
    slots = Slots(LEAST)
    numbers = [slots.put(bytes([n]) * LEAST) for n in range(COUNT)]
    assert numbers == list(range(COUNT))
    assert slots.put(BLOB) is None
    assert [slots.get(n, LEAST)[-1] for n in range(COUNT)] == list(range(COUNT))
    slots.free(2)
    assert slots.put(BLOB) == 2
    assert slots.get(1, LEAST) == b"\1" * LEAST
    assert slots.get(3, LEAST) == b"\3" * LEAST


def test_what_is_small_or_too_large_goes_another_way() -> None:
    slots = Slots(2 * LEAST)
    assert slots.put(b"") is None
    assert slots.put(BLOB[1:]) is None
    assert slots.put(BLOB * 3) is None


def test_models_that_would_take_much_memory_have_fewer_slots_or_none() -> None:
    two, none = Slots(ROOM // 2), Slots(ROOM + 1)
    assert [two.put(BLOB) for _ in range(3)] == [0, 1, None]
    assert none.put(BLOB) is None


def test_a_forked_process_sees_it_and_frees_it() -> None:
    slots = Slots(LEAST)
    for n in range(COUNT):
        slots.put(bytes([n]) * LEAST)
    pid = os.fork()
    if pid == 0:
        seen = slots.get(1, LEAST) == b"\1" * LEAST
        slots.free(1)
        os._exit(0 if seen else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert slots.put(BLOB) == 1
