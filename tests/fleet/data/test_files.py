"""Where data is looked for, and bounded reading."""

import gzip
from pathlib import Path

import pytest

from core.errors import DataError
from fleet.data.files import data_folder, find, read_limited


def test_the_variable_names_the_only_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EDGESTILL_DATA", "~/sets")
    assert data_folder() == tmp_path / "sets"


def test_without_it_data_lies_in_the_users_cache_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("EDGESTILL_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "edgestill" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "edgestill" / "data"
    stray = tmp_path / "shared" / "data" / "set"
    stray.mkdir(parents=True)
    (stray / "a").touch()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert find("set", ["a"]) is None
    data_folder().mkdir(parents=True)
    stray.rename(data_folder() / "set")
    assert find("set", ["a"]) == [data_folder() / "set" / "a"]


def test_a_dataset_is_found_packed_or_unpacked_but_only_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "a.gz").touch()
    assert find("set", ["a.gz", "b"]) is None
    (folder / "b.gz").touch()
    assert find("set", ["a.gz", "b"]) == [folder / "a.gz", folder / "b.gz"]
    (folder / "a.gz").rename(folder / "a")
    assert find("set", ["a.gz", "b"]) == [folder / "a", folder / "b.gz"]


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(1000)))
    assert read_limited(path, 1000) == bytes(1000)
    with pytest.raises(DataError, match="more than 999 bytes once read"):
        read_limited(path, 999)


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_damaged_gzip_is_one_clear_error(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(bytes(range(256)) * 8))
    if damage == "cut":
        packed = packed[:-10]
    elif damage == "flip":
        packed[len(packed) // 2] ^= 0xFF
    else:
        packed = bytearray(b"<html>not found</html>")
    path = tmp_path / "x.gz"
    path.write_bytes(packed)
    with pytest.raises(DataError, match=r"x\.gz: damaged or cut short .* fetch or copy it again"):
        read_limited(path, 1 << 20)


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_limited(tmp_path / "none", 10)
