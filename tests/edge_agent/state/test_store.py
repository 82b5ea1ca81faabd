"""What an agent remembers: whole or not there, after a kill at any step and on a full disk."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from core.errors import ConfigError
from core.files import move, write_atomic
from edge_agent.protocol.events import Fetched
from edge_agent.protocol.replay import Newest, round_of
from edge_agent.state.folders import remove
from edge_agent.state.store import CURRENT, Store, learned_path
from tests.edge_agent.state.test_model_cache import chunks_of
from wire.chunks import decode_chunk
from wire.ids import digest_of, transfer_id

pytestmark = pytest.mark.light

KEY = "0000000003-00ff00ff00ff00ff"
PROTOTYPE = "cnn:w1"


def opened(root: Path, **options: object) -> Store:
    return Store(root, prototype=PROTOTYPE, **options)


def leave(root: Path, key: str = KEY, *, where: str = "outbox", update: bytes = b"u" * 70_000, **files: bytes) -> None:
    """Put a job's folder where a child puts it."""
    folder = root / where / key
    folder.mkdir()
    (folder / "update").write_bytes(update)
    entry = {"round": round_of(key), "digest": digest_of(update), "size": len(update), "update": "state"}
    (folder / "entry.json").write_text(json.dumps(entry))
    for name, data in files.items():
        (folder / name.replace("current_", "current.")).write_bytes(data)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- starting


def test_the_session_grows_with_every_start(tmp_path: Path) -> None:
    numbers = []
    for _ in range(3):
        store = opened(tmp_path)
        numbers.append(store.next_session())
        store.close()
    assert numbers == [1, 2, 3]


def test_two_agents_cannot_share_a_folder(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(ConfigError, match="another agent"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_what_a_killed_child_was_writing_is_thrown_away(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "staging" / KEY).mkdir()
    (tmp_path / "staging" / KEY / "update").write_bytes(b"half")
    opened(tmp_path).close()
    assert names(tmp_path / "staging") == set()


# ---- outbox


def test_an_update_is_found_again_and_read_chunk_by_chunk(tmp_path: Path) -> None:
    opened(tmp_path).close()
    leave(tmp_path)
    store = opened(tmp_path)
    (spooled,) = store.outbox()
    assert (spooled.key, spooled.round, spooled.count) == (KEY, 3, 2)
    assert spooled.transfer == transfer_id(digest_of(b"u" * 70_000))
    chunks = [decode_chunk(store.chunk(spooled.transfer, n)) for n in (0, 1)]
    assert b"".join(bytes(chunk.data) for chunk in chunks) == b"u" * 70_000


@pytest.mark.parametrize("damage", ["no entry", "cut", "no update", "nonsense"])
def test_a_damaged_update_is_removed_so_that_the_job_is_trained_again(tmp_path: Path, damage: str) -> None:
    store = opened(tmp_path)
    leave(tmp_path)
    folder = tmp_path / "outbox" / KEY
    if damage == "no entry":
        (folder / "entry.json").unlink()
    elif damage == "cut":
        (folder / "update").write_bytes(b"u" * 69_999)
    elif damage == "no update":
        (folder / "update").unlink()
    else:
        (folder / "entry.json").write_text('{"digest": 3, "size": "x", "round": 1}')
    assert store.outbox() == []
    assert not folder.exists()


def test_an_answered_update_is_finished_and_gone_after_a_restart_too(tmp_path: Path) -> None:
    store = opened(tmp_path)
    leave(tmp_path)
    (spooled,) = store.outbox()
    store.settle(spooled, accepted=True)
    assert store.outbox() == []
    store.close()
    again = opened(tmp_path)
    assert again.finished() == [KEY]
    assert names(tmp_path / "finished" / f"{KEY}.accepted") == {"entry.json"}


def test_only_the_newest_finished_jobs_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_agent.state.store.KEEP_FINISHED", 2)
    store = opened(tmp_path)
    for number in (1, 2, 3):
        key = f"{number:010d}-{number:016x}"
        leave(tmp_path, key)
        store.settle(store.spooled(key), accepted=False)
    assert [int(key[:10]) for key in store.finished()] == [2, 3]


# ---- epochs

OLD, NEW = 1_760_000_000, 1_760_000_500


def key_in(epoch: int, number: int = 3) -> str:
    return f"e{epoch:016d}-{number:010d}-00ff00ff00ff00ff"


def old_epoch(root: Path) -> Store:
    """A store in its old epoch, round 3: one update waits, one is answered, an offer was taken."""
    store = opened(root)
    store.follow(Newest(epoch=OLD, round=3, numbers={PROTOTYPE: 4}))
    leave(root, key_in(OLD, 2))
    store.settle(store.spooled(key_in(OLD, 2)), accepted=True)
    leave(root, key_in(OLD, 3))
    (root / "taken").write_text("a" * 64)
    for what in ("residual", "extractor", "label-logits", "graph"):
        learned_path(root, PROTOTYPE, what).write_bytes(b"learned")
    (root / "current.onnx").write_bytes(b"model")
    return store


def test_the_newest_that_was_followed_outlives_a_restart(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.newest == Newest()
    store.follow(Newest(epoch=OLD, round=3, numbers={PROTOTYPE: 4}))
    store.close()
    assert opened(tmp_path).newest == Newest(epoch=OLD, round=3, numbers={PROTOTYPE: 4})


def test_a_new_epoch_ends_what_is_kept_by_round_and_nothing_else(tmp_path: Path) -> None:
    store = old_epoch(tmp_path)
    store.forget_before(NEW)
    store.follow(Newest(epoch=NEW))
    assert (store.outbox(), store.finished(), store.taken) == ([], [], None)
    assert names(tmp_path / "learned") == {"cnn-w1.extractor", "cnn-w1.label-logits"}
    assert (tmp_path / "current.onnx").read_bytes() == b"model"
    leave(tmp_path, key_in(NEW))
    store.forget_before(NEW)  # a full disk has it done again: what is new stays
    assert [spooled.key for spooled in store.outbox()] == [key_in(NEW)]


class Killed(BaseException):
    """The power is gone."""


def test_killed_at_any_step_of_a_new_epoch_the_next_start_comes_out_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each removal, each write of newest.json and the moment after it in turn is the last thing that happens."""
    steps = 0
    while True:
        root = tmp_path / str(steps)
        store = old_epoch(root)
        left = steps

        def step(*arguments: object, real: Callable[..., None]) -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            real(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr("edge_agent.state.store.remove", partial(step, real=remove))
            patched.setattr("edge_agent.state.store.write_atomic", partial(step, real=write_atomic))
            try:
                store.forget_before(NEW)
                store.follow(Newest(epoch=NEW))
                done = True
            except Killed:
                done = False
        store.close()
        again = opened(root)
        assert again.newest.epoch == (NEW if done else OLD)  # an old one means: it is told once more
        assert {spooled.key for spooled in again.outbox()} <= {key_in(OLD, 3)}
        again.forget_before(NEW)
        again.follow(Newest(epoch=NEW))
        assert (again.outbox(), again.finished(), again.taken) == ([], [], None)
        again.close()
        if done:
            break
        steps += 1
    assert steps == 6


def test_an_update_that_a_child_of_the_older_epoch_left_after_all_is_dropped_at_the_next_start(tmp_path: Path) -> None:
    store = old_epoch(tmp_path)
    store.forget_before(NEW)
    store.follow(Newest(epoch=NEW))
    store.close()
    leave(tmp_path, key_in(OLD, 4))
    assert opened(tmp_path).outbox() == []
    assert names(tmp_path / "outbox") == set()


def test_without_newest_json_the_names_of_jobs_still_tell_epoch_and_round(tmp_path: Path) -> None:
    old_epoch(tmp_path).close()
    (tmp_path / "newest.json").write_bytes(b"\x00" * 40)
    assert opened(tmp_path).newest == Newest(epoch=OLD, round=3)
    assert names(tmp_path / "damaged") == {"newest.json"}


def test_what_an_edgestill_without_epochs_has_left_is_kept_until_a_second_epoch(tmp_path: Path) -> None:
    opened(tmp_path).close()
    leave(tmp_path)
    store = opened(tmp_path)
    store.follow(Newest(epoch=OLD, round=3))
    store.close()
    store = opened(tmp_path)
    assert [spooled.key for spooled in store.outbox()] == [KEY]
    store.forget_before(NEW)
    assert store.outbox() == []


# ---- what stays on the device


def test_the_new_model_takes_its_place_and_the_residual_waits_for_acceptance(tmp_path: Path) -> None:
    store = opened(tmp_path)
    leave(
        tmp_path,
        current_onnx=b"o",
        current_safetensors=b"s",
        current_json=b"{}",
        residual=b"r",
        extractor=b"e",
        graph=b"g",
    )
    store.take_job(KEY)
    assert [(tmp_path / name).read_bytes() for name in CURRENT] == [b"o", b"s", b"{}"]
    assert learned_path(tmp_path, PROTOTYPE, "extractor").read_bytes() == b"e"
    assert learned_path(tmp_path, PROTOTYPE, "graph").read_bytes() == b"g"
    assert not learned_path(tmp_path, PROTOTYPE, "residual").exists()
    store.settle(store.spooled(KEY), accepted=True)
    assert learned_path(tmp_path, PROTOTYPE, "residual").read_bytes() == b"r"


def test_a_personal_model_stays_until_a_job_that_asks_for_none(tmp_path: Path) -> None:
    store = opened(tmp_path)
    path = learned_path(tmp_path, PROTOTYPE, "personal")
    leave(tmp_path, personal=b"mine")
    entry = tmp_path / "outbox" / KEY / "entry.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "personal": True}))
    store.take_job(KEY)
    store.take_job(KEY)  # killed in between, it is taken twice
    assert path.read_bytes() == b"mine"
    store.settle(store.spooled(KEY), accepted=True)
    leave(tmp_path, "0000000004-00ff00ff00ff00ff")
    store.take_job("0000000004-00ff00ff00ff00ff")
    assert not path.exists()


def test_the_residual_of_a_rejected_update_never_was(tmp_path: Path) -> None:
    store = opened(tmp_path)
    leave(tmp_path, residual=b"new")
    learned_path(tmp_path, PROTOTYPE, "residual").write_bytes(b"old")
    store.settle(store.spooled(KEY), accepted=False)
    assert learned_path(tmp_path, PROTOTYPE, "residual").read_bytes() == b"old"


def test_a_kill_between_the_renames_is_made_good_at_the_next_start(tmp_path: Path) -> None:
    opened(tmp_path).close()
    leave(tmp_path, current_onnx=b"o", residual=b"r")  # spooled, nothing taken yet
    other = "0000000002-00ff00ff00ff00ff"
    leave(tmp_path, other, residual=b"r2")
    move(tmp_path / "outbox" / other, tmp_path / "finished" / f"{other}.accepted")  # answered, not tidied
    store = opened(tmp_path)
    assert (tmp_path / "current.onnx").read_bytes() == b"o"
    assert learned_path(tmp_path, PROTOTYPE, "residual").read_bytes() == b"r2"
    assert names(tmp_path / "finished" / f"{other}.accepted") == {"entry.json"}
    assert [spooled.key for spooled in store.outbox()] == [KEY]


def test_an_offer_is_taken_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.taken is None
    folder = tmp_path / "ready" / "offer-aa"
    folder.mkdir()
    (folder / "current.onnx").write_bytes(b"o")
    store.take_offer("offer-aa", "a" * 64)
    assert (tmp_path / "current.onnx").read_bytes() == b"o"
    assert store.taken == "a" * 64
    assert names(tmp_path / "ready") == set()


# ---- a full disk


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("*** CANNOT MOUNT A SMALL DISK: A FULL DISK IS NOT TESTED ***")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * 4096)
            except OSError:
                return


def test_a_full_disk_refuses_a_chunk_and_keeps_what_is_there(tiny_disk: Path) -> None:
    cache = opened(tiny_disk / "state").models
    data = os.urandom(120_000)
    digest, chunks = chunks_of(data, 40_000)
    cache.add(digest, chunks[0])
    fill(tiny_disk)
    with pytest.raises(OSError, match="No space left"):
        cache.add(digest, chunks[1])
    (tiny_disk / "filler").unlink()
    assert cache.look(digest).missing == ((1, 3),)
    cache.add(digest, chunks[1])
    cache.add(digest, chunks[2])
    assert cache.check(digest) == Fetched(digest)
    assert cache.path(digest).read_bytes() == data


def test_on_a_full_disk_an_answer_is_remembered_all_the_same(tiny_disk: Path) -> None:
    root = tiny_disk / "state"
    store = opened(root)
    leave(root, current_onnx=b"o", residual=b"r")
    store.take_job(KEY)
    (spooled,) = store.outbox()
    fill(tiny_disk)
    store.settle(spooled, accepted=True)
    store.close()
    (tiny_disk / "filler").unlink()
    assert opened(root).finished() == [KEY]
    assert (root / "current.onnx").read_bytes() == b"o"


def test_a_full_disk_at_the_start_keeps_the_old_session(tiny_disk: Path) -> None:
    root = tiny_disk / "state"
    store = opened(root)
    store.next_session()
    fill(tiny_disk)
    with pytest.raises(OSError, match="No space left"):
        store.next_session()
    (tiny_disk / "filler").unlink()
    assert store.next_session() == 2
    assert not [name for name in names(root) if name.startswith(".session")]
