"""Blobs are whole, durable and called by their content."""

import os
from pathlib import Path

import pytest

from aggregator.storage.blobs import TOGETHER, Blobs
from core.errors import RoundError, StorageError, TopicError
from wire.ids import digest_of

pytestmark = pytest.mark.light


def test_what_is_put_can_be_read_by_its_digest(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    digest = blobs.put(b"tensors")
    assert digest == digest_of(b"tensors")
    assert digest in blobs
    assert blobs.read(digest) == b"tensors"
    assert blobs.put(b"tensors") == digest
    assert list(blobs) == [digest]


def test_a_blob_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RoundError, match=r"blob 000000000000… in .* is not there; put it back from a backup"):
        Blobs(tmp_path).read("0" * 64)
    with pytest.raises(TopicError):
        Blobs(tmp_path).path("../../etc/passwd")


@pytest.mark.parametrize("count", [0, 1, 20])
def test_finished_files_are_adopted_without_a_copy(tmp_path: Path, count: int) -> None:
    blobs = Blobs(tmp_path / "blobs")
    files = {}
    for i in range(count):
        path = tmp_path / f"{i}.part"
        path.write_bytes(bytes([i]))
        files[digest_of(bytes([i]))] = path
    numbers = {digest: path.stat().st_ino for digest, path in files.items()}
    for digest, path in files.items():
        blobs.begin(digest, path)
    blobs.adopt()
    assert sorted(blobs) == sorted(files)
    assert {digest: blobs.path(digest).stat().st_ino for digest in files} == numbers
    assert not any(path.exists() for path in files.values())
    blobs.close()


@pytest.mark.parametrize("count", [1, TOGETHER, 20])
def test_finished_bytes_are_written_and_have_a_name_only_when_adopted(tmp_path: Path, count: int) -> None:
    blobs = Blobs(tmp_path)
    contents = {digest_of(data): data for data in (bytearray([i]) * i for i in range(count))}
    for digest, data in contents.items():
        blobs.begin(digest, data)
    assert list(blobs) == []
    blobs.adopt()
    assert sorted(os.listdir(tmp_path)) == sorted(contents)
    assert {digest: blobs.read(digest) for digest in contents} == contents
    blobs.close()


@pytest.mark.parametrize("count", [1, TOGETHER - 1])
def test_a_file_that_cannot_be_synced_is_an_error_and_nothing_is_adopted(tmp_path: Path, count: int) -> None:
    """One on the caller's thread, or in the middle of what another thread syncs."""
    blobs = Blobs(tmp_path / "blobs")
    (tmp_path / "a").write_bytes(b"a")
    blobs.begin(digest_of(b"a"), tmp_path / "a")
    blobs.begin("0" * 64, tmp_path / "missing")
    for i in range(count):
        blobs.begin(digest_of(bytes([i])), bytearray([i]))
    with pytest.raises(FileNotFoundError):
        blobs.adopt()
    assert os.listdir(blobs.folder) == []
    blobs.begin(digest_of(b"b"), bytearray(b"b"))
    blobs.adopt()
    assert list(blobs) == [digest_of(b"b")]
    blobs.close()


def test_everything_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    sync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append("sync"), sync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append("name"), move(a, b))[1])
    blobs = Blobs(tmp_path / "blobs")
    (tmp_path / "a").write_bytes(b"a")
    blobs.begin(digest_of(b"a"), tmp_path / "a")
    for i in range(TOGETHER):
        blobs.begin(digest_of(bytes([i])), bytearray([i]))
    blobs.adopt()
    count = TOGETHER + 1
    assert seen == ["sync"] * count + ["name"] * count + ["sync"]  # the last is the folder's
    blobs.close()


def test_what_nothing_names_is_collected(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    keep, drop = blobs.put(b"keep"), blobs.put(b"drop")
    for name in (f".{drop}", f".{drop}.x8_a"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("not ours")
    assert blobs.collect([keep, "f" * 64]) == 3
    assert list(blobs) == [keep]
    assert drop not in blobs
    assert sorted(os.listdir(tmp_path)) == [keep, "notes.txt"]


@pytest.mark.parametrize("data", [b"", b"kee", b"KEEP", b"keep and more"])
def test_a_damaged_blob_is_never_read_and_is_replaced_when_it_is_put_again(tmp_path: Path, data: bytes) -> None:
    blobs = Blobs(tmp_path)
    digest = blobs.put(b"keep")
    blobs.check(digest, 4)
    blobs.path(digest).write_bytes(data)
    for look in (lambda: blobs.read(digest), lambda: blobs.check(digest, 4)):
        with pytest.raises(StorageError, match=r"is damaged; put it back from a backup"):
            look()
    assert blobs.put(b"keep") == digest
    assert blobs.read(digest) == b"keep"
