"""What runs measured, on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import ConfigError, DataError
from fleet.experiments.store import Store, Work
from tests.fleet.experiments.toys import filled


def test_a_run_s_name_never_collides_with_another_s_file() -> None:
    stems = {Work(name, "paper", 0).stem for name in ("a/b", "a b", "a.b", "a%b", "a_b", "a+b")}
    assert len(stems) == 6
    assert not any("/" in stem for stem in stems)


def test_seeds_of_a_cell_are_those_that_all_its_runs_have(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.write(Work("two", "paper", 5), {"value": 1}, 1.0)
    assert store.seeds("paper", ["two"]) == [0, 1, 5]
    assert store.seeds("paper", ["two", "seven/of 9"]) == [0, 1]
    assert store.seeds("reference", ["two"]) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.path(Work("two", "paper", 0)).write_text("{")
    with pytest.raises(DataError, match=r"two\.paper\.0\.json: not readable .* remove it to measure it again"):
        store.read(Work("two", "paper", 0))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another folder"):
        Store(tmp_path / "file").make()


def test_what_was_measured_comes_back_with_its_seconds_and_versions(tmp_path: Path) -> None:
    store, work = Store(tmp_path), Work("a/b", "paper", 3)
    store.make()
    assert store.read(work) is None
    store.write(work, {"value": 1.5}, 2.345)
    kept = store.read(work)
    assert kept is not None
    assert (kept["run"], kept["seed"], kept["facts"], kept["seconds"]) == ("a/b", 3, {"value": 1.5}, 2.3)
    assert kept["versions"]["python"]
    assert json.loads(store.path(work).read_text()) == kept


def test_files_of_a_run_lie_in_folders_of_their_own(tmp_path: Path) -> None:
    store, work = Store(tmp_path), Work("two", "paper", 0)
    assert store.path(work) == tmp_path / "cells" / "two.paper.0.json"
    assert store.log(work) == tmp_path / "logs" / "two.paper.0.log"
    assert store.scratch(work) == tmp_path / "files" / "two.paper.0"


def test_a_run_whose_name_begins_like_anothers_has_its_own_seeds(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.make()
    store.write(Work("two", "paper", 1), {}, 0.0)
    store.write(Work("two.paper", "paper", 2), {}, 0.0)
    assert store.seeds("paper", ["two"]) == [1]
    assert store.seeds("paper", []) == []
