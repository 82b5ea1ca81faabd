"""Received models: whole with the right digest or not there, and a bound on their size."""

import os
from pathlib import Path

import pytest

from core.errors import TransferError
from edge_agent.protocol.events import ChunkStored, Fetched, FetchFailed, Resumed
from edge_agent.state.model_cache import ModelCache, file_digest
from wire.chunks import Content, encode_chunk
from wire.ids import digest_of

pytestmark = pytest.mark.light


def opened(root: Path, limit: int = 10**9) -> ModelCache:
    return ModelCache(root, limit=limit)


def chunks_of(data: bytes, size: int = 100) -> tuple[str, list[bytes]]:
    content = Content(digest=digest_of(data), size=len(data), chunk_size=size)
    spans = [content.span(n) for n in range(content.count)]
    return content.digest, [encode_chunk(content, n, data[o : o + s]) for n, (o, s) in enumerate(spans)]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_model_is_there_once_all_chunks_are_and_the_digest_is_right(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    digest, chunks = chunks_of(os.urandom(350))
    assert cache.look(digest) == Resumed(digest)
    for n in (3, 1, 0, 1, 2):
        assert cache.add(digest, chunks[n]) == ChunkStored(digest, n, 4)
    assert cache.check(digest) == Fetched(digest)
    assert cache.look(digest) == Fetched(digest)
    assert digest_of(cache.path(digest).read_bytes()) == digest
    assert names(tmp_path / "partial") == set()


def test_a_download_goes_on_after_a_kill_with_what_reached_the_disk(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    digest, chunks = chunks_of(os.urandom(3000))
    for chunk in chunks[:16]:
        cache.add(digest, chunk)
    cache.add(digest, chunks[20])  # after the last time it was written down
    with (tmp_path / "partial" / digest).open("r+b") as file:
        file.seek(250)
        file.write(b"torn")
    found = opened(tmp_path).look(digest)
    assert found == Resumed(digest, 30, ((2, 3), (16, 30)))


def test_a_state_file_that_is_nonsense_starts_the_download_over(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    (tmp_path / "partial" / ("a" * 64)).write_bytes(b"x")
    (tmp_path / "partial" / f"{'a' * 64}.state").write_bytes(b"nonsense")
    assert cache.look("a" * 64) == Resumed("a" * 64)
    assert names(tmp_path / "partial") == set()


def test_a_whole_that_differs_is_thrown_away(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    data = os.urandom(150)
    content = Content(digest=digest_of(b"something else"), size=150, chunk_size=100)
    for n in (0, 1):
        offset, size = content.span(n)
        cache.add(content.digest, encode_chunk(content, n, data[offset : offset + size]))
    failed = cache.check(content.digest)
    assert isinstance(failed, FetchFailed)
    assert "another digest" in failed.reason
    assert cache.look(content.digest) == Resumed(content.digest)


def test_a_chunk_of_another_model_is_refused(tmp_path: Path) -> None:
    _, chunks = chunks_of(b"abc")
    with pytest.raises(TransferError, match="on the topic of"):
        opened(tmp_path).add("b" * 64, chunks[0])


def test_the_cache_throws_the_least_recently_used_away_but_nothing_needed(tmp_path: Path) -> None:
    cache = opened(tmp_path, 2**20)
    digests = []
    for age in range(4):
        digest, chunks = chunks_of(os.urandom(400_000), 100_000)
        for chunk in chunks:
            cache.add(digest, chunk)
        cache.check(digest)
        os.utime(cache.path(digest), (age, age))
        digests.append(digest)
    cache.evict({digests[0]})
    assert names(tmp_path / "models") == {digests[0], digests[3]}
    cache.evict({digests[0]}, everything=True)
    assert names(tmp_path / "models") == {digests[0]}


def test_partial_models_that_nobody_wants_are_thrown_away(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    digest, chunks = chunks_of(os.urandom(3000))
    for chunk in chunks[:20]:
        cache.add(digest, chunk)
    cache.evict({"b" * 64})
    assert names(tmp_path / "partial") == set()
    assert cache.look(digest) == Resumed(digest)


def test_a_model_that_the_disk_has_damaged_is_fetched_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = opened(tmp_path)
    digest, chunks = chunks_of(b"x" * 150)
    for chunk in chunks:
        cache.add(digest, chunk)
    assert cache.check(digest) == Fetched(digest)
    cache.path(digest).write_bytes(b"x" * 149 + b"y")
    assert cache.look(digest) == Resumed(digest)
    assert "its bytes have changed" in caplog.text
    assert names(tmp_path / "models") == set()


def test_chunks_that_are_gone_are_said_to_be(tmp_path: Path) -> None:
    assert opened(tmp_path).check("a" * 64) == FetchFailed("a" * 64, "its chunks are gone")


def test_the_digest_of_a_file_is_that_of_its_bytes_and_of_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert file_digest(tmp_path / "f") == file_digest(tmp_path / "f", 3) == digest_of(b"abc")
    with pytest.raises(ValueError, match="f is not a file of the right size"):
        file_digest(tmp_path / "f", 4)
    with pytest.raises(ValueError, match="not a file"):
        file_digest(tmp_path)
