"""Chunks in, whole updates out; what is missing, when it is said, what waits where, and what a restart keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.intake.transfers import ANSWER_RANGES, HALTED_S, IN_MEMORY, SAVE_EVERY, SMALL, Finished, Uploads
from core.errors import DeviceError
from tests.sender import Sender, content_of
from wire.chunks import Chunk, Content, decode_chunk, encode_chunk
from wire.ids import transfer_id
from wire.storage import MemoryStorage
from wire.transfer import Receiver

pytestmark = pytest.mark.light
DATA = bytes(range(256)) * 40  # 10 chunks of 1024: waits in memory
LARGE = DATA * 2  # 20 chunks: has a part file


def chunks(data: bytes = DATA, size: int = 1024) -> list[Chunk]:
    content = content_of(data, chunk_size=size)
    sender = Sender(content, MemoryStorage(data))
    return [decode_chunk(sender.chunk(n)) for n in range(content.count)]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def uploads(folder: Path, **changes: object) -> Uploads:
    limits = {"max_size": 10**6, "per_device": 2, "max_bytes": 10**6, "min_chunk": 1024}
    return Uploads(folder, **{**limits, **changes})


def test_chunks_in_any_order_make_the_whole(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    parts = chunks()
    results = [desk.add("a", parts[n]) for n in (9, 3, 1, 0, 2, 4, 5, 6, 7, 8)]
    finished = results[-1]
    assert isinstance(finished, Finished)
    assert finished.held == DATA
    assert finished.content == parts[0].content


def test_a_large_update_waits_in_a_part_file(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    *_, finished = [desk.add("a", chunk) for chunk in reversed(chunks(LARGE))]
    assert isinstance(finished, Finished)
    assert isinstance(finished.held, Path)
    assert finished.held.read_bytes() == LARGE
    assert desk.in_memory == 0


def test_an_update_that_would_be_whole_before_it_is_saved_needs_no_file(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    for chunk in chunks(bytes(1024 * SAVE_EVERY)):
        desk.add("a", chunk)
    assert (desk.in_memory, list(tmp_path.iterdir())) == (1024 * SAVE_EVERY, [])
    desk.drop("a", transfer_id(chunk.content.digest))
    assert (desk.in_memory, desk.size) == (0, 0)


def test_beyond_the_bytes_in_memory_small_updates_have_part_files_too(tmp_path: Path) -> None:
    desk = uploads(tmp_path, max_size=IN_MEMORY, max_bytes=2 * IN_MEMORY)
    for n in range(IN_MEMORY // SMALL):  # the last leaves room for one of DATA
        fill = Content(digest=f"{n:064x}", size=SMALL - (n == 15) * len(DATA), chunk_size=2**16)
        desk.add(f"a{n}", decode_chunk(encode_chunk(fill, 0, bytes(2**16))))
    desk.add("b", chunks()[0])
    assert (desk.in_memory, list(tmp_path.iterdir())) == (IN_MEMORY, [])
    *_, finished = [desk.add("c", chunk) for chunk in chunks()]
    assert isinstance(finished, Finished)
    assert isinstance(finished.held, Path)
    assert finished.held.read_bytes() == DATA
    assert desk.in_memory == IN_MEMORY


@pytest.mark.parametrize("data", [DATA, LARGE])
def test_after_a_clean_end_all_that_is_held_is_there_again(tmp_path: Path, data: bytes) -> None:
    desk = uploads(tmp_path)
    for chunk in chunks(data)[:-1]:
        desk.add("a", chunk)
    desk.save()
    again = uploads(tmp_path)
    assert (again.size, again.in_memory) == (len(data), 0)
    finished = again.add("a", chunks(data)[-1])
    assert isinstance(finished, Finished)
    assert isinstance(finished.held, Path)
    assert finished.held.read_bytes() == data


def test_what_is_missing_is_said_after_every_second_new_chunk(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    said = [desk.add("a", chunk) for chunk in chunks()[:5]]
    assert said == [None, ((2, 10),), None, ((4, 10),), None]


def test_a_chunk_that_is_there_already_is_a_probe_and_answered_at_once(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    parts = chunks()
    desk.add("a", parts[0])
    assert desk.add("a", parts[0]) == ((1, 10),)


def test_devices_do_not_meet_even_with_the_same_content(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    for chunk in chunks()[:9]:
        desk.add("a", chunk)
    assert desk.add("b", chunks()[9]) is None
    assert sorted((d, r) for d, _, r in desk.missing()) == [("a", ((9, 10),)), ("b", ((0, 9),))]


def test_an_update_over_the_limit_is_refused_at_its_first_chunk(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="update of 10240 bytes, at most 10239 are allowed"):
        uploads(tmp_path, max_size=10239).add("a", chunks()[5])
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_begins_too_many_loses_its_oldest(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    for start in (b"1", b"2", b"3"):
        desk.add("a", chunks(start + LARGE)[0])
    assert len(desk) == 2
    first = transfer_id(chunks(b"1" + LARGE)[0].content.digest)
    assert not desk.has("a", first)
    assert not (tmp_path / f"a.{first}.part").exists()


def test_when_too_many_bytes_are_unfinished_a_new_transfer_waits(tmp_path: Path) -> None:
    desk = uploads(tmp_path, max_bytes=15_000)
    desk.add("a", chunks()[0])
    assert desk.add("b", chunks()[0]) is None
    assert (len(desk), desk.size) == (1, 10_240)
    desk.drop("a", transfer_id(chunks()[0].content.digest))
    desk.add("b", chunks()[0])
    assert (len(desk), desk.size) == (1, 10_240)


def test_content_of_0_bytes_is_one_chunk(tmp_path: Path) -> None:
    finished = uploads(tmp_path).add("a", chunks(b"")[0])
    assert isinstance(finished, Finished)
    assert finished.held == b""


def test_after_a_restart_only_what_was_not_saved_is_missing(tmp_path: Path) -> None:
    data = bytes(100) * 1024
    desk = uploads(tmp_path)
    for chunk in chunks(data)[:20]:  # saved at the 16th
        desk.add("a", chunk)
    again = uploads(tmp_path)
    assert [r for _, _, r in again.missing()] == [((16, 100),)]
    desk.save()
    assert [r for _, _, r in uploads(tmp_path).missing()] == [((20, 100),)]


def test_after_a_power_cut_chunks_whose_bytes_are_gone_are_missing(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    for chunk in chunks()[:4]:
        desk.add("a", chunk)
    desk.save()
    (part,) = tmp_path.glob("*.part")
    part.write_bytes(DATA[:2048] + bytes(1024) + DATA[3072:4096])
    assert [r for _, _, r in uploads(tmp_path).missing()] == [((2, 3), (4, 10))]


def test_a_part_file_without_its_state_is_forgotten(tmp_path: Path) -> None:
    uploads(tmp_path).add("a", chunks(LARGE)[0])
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    (tmp_path / "b.0.state").write_bytes(b"left over")
    assert len(uploads(tmp_path)) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_whole_that_is_not_what_it_was_announced_as_comes_again_once(tmp_path: Path) -> None:
    """Every chunk is sound in itself, but the digest that they name is of other bytes."""
    lie = Content(digest="0" * 64, size=2048, chunk_size=1024)
    parts = [decode_chunk(encode_chunk(lie, n, DATA[:1024])) for n in (0, 1)]
    desk = uploads(tmp_path)
    desk.add("a", parts[0])
    assert desk.add("a", parts[1]) == ((0, 2),)
    desk.add("a", parts[0])
    with pytest.raises(DeviceError, match="another digest"):
        desk.add("a", parts[1])


def test_what_makes_no_progress_expires(tmp_path: Path) -> None:
    clock = Clock()
    desk = uploads(tmp_path, clock=clock)
    desk.add("a", chunks()[0])
    clock.now = 50.0
    desk.add("b", chunks()[0])
    clock.now = 120.0
    assert desk.expire(100.0) == 1
    assert [d for d, _, _ in desk.missing()] == ["b"]


def test_a_revoked_device_leaves_nothing_behind(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    for data in (DATA, LARGE):
        desk.add("a", chunks(data)[0])
    desk.save()
    assert len(list(tmp_path.iterdir())) == 4
    desk.drop_device("a")
    desk.drop_device("nobody")
    assert (len(desk), desk.size, desk.in_memory, list(tmp_path.iterdir())) == (0, 0, 0, [])


def test_chunks_smaller_than_any_agent_sends_are_refused_at_the_first(tmp_path: Path) -> None:
    desk = Uploads(tmp_path, max_size=10**6, per_device=2, max_bytes=10**6)
    with pytest.raises(DeviceError, match="in chunks of 4095 bytes, at least 4096 are asked for"):
        desk.add("a", chunks(DATA, 4095)[0])
    assert desk.add("a", chunks(DATA, 4096)[0]) is None
    assert isinstance(desk.add("a", chunks(b"all of it", 9)[0]), Finished)  # one chunk may be as small as it likes


def test_an_answer_names_few_ranges_however_scattered_the_chunks_come(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    parts = chunks(bytes(1024) * 600)
    said = [desk.add("a", parts[n]) for n in range(0, 600, 2)]
    assert max(len(ranges) for ranges in said if ranges) == ANSWER_RANGES
    assert said[-1][:2] == ((1, 2), (3, 4))


def saved_bytes(folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """What is written beside a part file of `count` chunks while it grows."""
    total = 0
    save = Receiver.save

    def counted(receiver: Receiver) -> bytes:
        nonlocal total
        state = save(receiver)
        total += len(state)
        return state

    with monkeypatch.context() as patch:
        patch.setattr(Receiver, "save", counted)
        desk = uploads(folder, max_size=10**7, max_bytes=10**8)
        for chunk in chunks(bytes(1024) * count)[:-1]:
            desk.add("a", chunk)
    return total


def test_what_is_saved_beside_a_part_file_grows_with_its_chunks_not_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (saved_bytes(tmp_path / str(n), n, monkeypatch) for n in (256, 16 * 256))
    assert few > 0
    assert many < 2 * 16 * few


def test_after_a_kill_an_eighth_of_a_large_update_must_come_again_at_most(tmp_path: Path) -> None:
    desk = uploads(tmp_path)
    for chunk in chunks(bytes(1024) * 900)[:899]:
        desk.add("a", chunk)
    ((_, _, ((start, stop),)),) = uploads(tmp_path).missing()
    assert stop == 900
    assert 900 - start <= 900 / 8 + 2


def test_one_message_reserves_no_more_memory_than_an_update_that_waits_there_may_have(tmp_path: Path) -> None:
    desk = uploads(tmp_path, max_size=IN_MEMORY, max_bytes=2 * IN_MEMORY)
    last = Content(digest="0" * 64, size=8 * 1_900_000 + 1, chunk_size=1_900_000)
    desk.add("a", decode_chunk(encode_chunk(last, 8, b"x")))
    assert (len(desk), desk.in_memory) == (1, 0)


def test_where_there_is_no_room_an_upload_that_has_come_to_a_halt_makes_it(tmp_path: Path) -> None:
    clock = Clock()
    desk = uploads(tmp_path, max_bytes=25_000, clock=clock)
    desk.add("halted", chunks()[0])
    desk.add("busy", chunks()[0])
    clock.now = HALTED_S
    desk.add("busy", chunks()[1])
    assert desk.add("new", chunks()[0]) is None
    assert not any(device == "new" for device, _, _ in desk.missing())
    clock.now = HALTED_S + 1
    desk.add("new", chunks()[0])
    assert [device for device, _, _ in desk.missing()] == ["busy", "new"]
