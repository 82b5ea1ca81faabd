"""Files of others are read without trust, and ours are written where they were meant to be."""

import os
import stat
from pathlib import Path

import pytest

from core.files import atomic_file, move, named_file, open_regular, read_regular, sync, write_atomic

pytestmark = pytest.mark.light


def test_a_plain_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than the 4 bytes"):
        read_regular(path, 4)
    assert read_regular(path, 2**60) == b"12345"  # a bound is not allocated
    assert read_regular("/proc/self/status", 100_000).startswith(b"Name:")


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/tty"), tmp_path):
        with pytest.raises(OSError, match=r"not a plain file|a folder|No such device|Permission"):
            os.close(open_regular(path))


def test_a_link_is_followed_only_where_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "link").symlink_to("a")
    assert read_regular(tmp_path / "link", 10) == b"x"
    with pytest.raises(OSError, match="a symbolic link"):
        read_regular(tmp_path / "link", 10, follow=False)
    assert named_file(tmp_path / "link") == tmp_path.resolve() / "a"
    (tmp_path / "loop").symlink_to("loop")
    for use in (named_file, open_regular):
        with pytest.raises(OSError, match="symbolic links"):
            use(tmp_path / "loop")


def test_writing_replaces_a_link_and_leaves_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "named").write_text("another's")
    (tmp_path / "link").symlink_to("named")
    write_atomic(tmp_path / "link", "ours", mode=0o600)
    assert (tmp_path / "named").read_text() == "another's"
    assert stat.S_IMODE((tmp_path / "link").lstat().st_mode) == 0o600
    assert (tmp_path / "link").read_text() == "ours"


def test_writing_never_replaces_a_device_or_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file, and not replaced by one"):
        write_atomic(tmp_path / "pipe", "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_that_is_written_in_pieces_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic_file(path, mode=0o600) as file:
        file.write(b"new")
        file.seek(0)
        file.truncate()
        file.write(b"newer")
        assert path.read_bytes() == b"old"
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"newer", 0o600)
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_whose_writing_fails_is_not_there_and_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_file(tmp_path / "a") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert os.listdir(tmp_path) == []
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not replaced by one"):
        write_atomic(tmp_path / "pipe", b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_move_is_synced_in_both_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    (here / "a").write_bytes(b"new")
    (there / "a").write_bytes(b"old")
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(os.readlink(f"/proc/self/fd/{handle}"))))
    move(here / "a", there / "a")
    assert (synced, (there / "a").read_bytes(), os.listdir(here)) == ([there, here], b"new", [])
    move(there / "a", there / "b")
    assert synced == [there, here, there]
    sync(there / "b")
    assert synced[-1] == there / "b"
