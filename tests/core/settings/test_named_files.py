"""Files that a configuration names and that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.settings.named_files import missing_files

pytestmark = pytest.mark.light


def test_a_missing_file_is_told_with_its_table_and_key(tmp_path: Path) -> None:
    (tmp_path / "there.npz").touch()
    there, gone = str(tmp_path / "there.npz"), str(tmp_path / "gone.npz")
    tables = {
        "state": {"dir": gone, "key": there},
        "task": {"validation": gone},
        "fusion": {"source": "noise", "validation": "task", "teachers": [there, gone]},
        "data": {"path": gone},
        "broker": {"host": "x", "tls": {"ca": gone, "cert": None, "key": there}},
    }
    found = missing_files(tables)
    assert [(m.table, m.key, m.needed) for m in found] == [
        ("task", "validation", True),
        ("fusion", "teachers", True),
        ("data", "path", False),
        ("broker.tls", "ca", True),
    ]
    assert str(found[0]) == f"[task]: 'validation': there is no file {gone}"


def test_a_relative_path_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are those of `--set` and of variables."""
    (tmp_path / "there.npz").touch()
    monkeypatch.chdir(tmp_path)
    tables = {"state": {"key": "gone.key"}, "data": {"path": "there.npz"}, "fusion": {"source": "gone.npz"}}
    assert [(m.table, m.key) for m in missing_files(tables)] == [("state", "key"), ("fusion", "source")]


def test_a_key_in_hex_is_no_file_and_a_board_that_enrols_makes_its_own(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    keys = {"private": gone, "aggregator": "ab" * 32}
    tls = {"ca": str(tmp_path), "cert": gone, "key": gone}
    assert [m.key for m in missing_files({"keys": keys, "broker": {"tls": tls}})] == ["private", "cert", "key"]
    assert missing_files({"keys": keys, "broker": {"tls": tls}, "enrol": {"cert": "claim.pem"}}) == []
    assert missing_files({"broker": {"tls": None}, "task": {"validation": None}}) == []
