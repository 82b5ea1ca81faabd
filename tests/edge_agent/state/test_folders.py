"""Files of the state folder: locked, read in bounds, removed, set aside."""

import os
from pathlib import Path

import pytest

from core.errors import ConfigError
from edge_agent.state.folders import DAMAGED, lock, read_small, remove, set_aside

pytestmark = pytest.mark.light


def test_one_holder_at_a_time_and_the_next_after_it_lets_go(tmp_path: Path) -> None:
    held = lock(tmp_path / "lock")
    with pytest.raises(ConfigError, match="locked by another agent; stop that one, or give this one its own state_dir"):
        lock(tmp_path / "lock")
    held.close()
    lock(tmp_path / "lock").close()


def test_a_small_file_is_read_up_to_its_limit_and_only_if_it_is_one(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10)
    assert read_small(tmp_path / "f", 10) == b"x" * 10
    with pytest.raises(ValueError, match="larger than the 9 bytes that it may have"):
        read_small(tmp_path / "f", 9)
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "absent")
    os.mkfifo(tmp_path / "fifo")
    for other in (tmp_path, tmp_path / "fifo"):  # neither waits for a writer
        with pytest.raises(ValueError):
            read_small(other)


def test_files_folders_and_links_are_removed_and_what_links_point_to_is_not(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "file").touch()
    for name in ("link", "folder", "file", "absent"):
        remove(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "inner").is_dir()


def test_what_cannot_be_used_is_set_aside_and_the_last_of_its_name_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("first", "second"):
        (tmp_path / "session").write_text(text)
        set_aside(tmp_path, tmp_path / "session", "not a number")
    assert not (tmp_path / "session").exists()
    assert (tmp_path / DAMAGED / "session").read_text() == "second"
    assert caplog.messages == [f"{tmp_path}/session: not a number; set aside in damaged/"] * 2


def test_a_file_in_the_place_of_the_folder_makes_room(tmp_path: Path) -> None:
    (tmp_path / DAMAGED).write_text("no folder")
    (tmp_path / "f").write_text("f")
    set_aside(tmp_path, tmp_path / "f", "damaged")
    assert (tmp_path / DAMAGED / "f").read_text() == "f"
