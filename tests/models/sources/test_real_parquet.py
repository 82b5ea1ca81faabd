"""Parquet as pyarrow writes it: types of columns, missing values, row groups, damaged files.

pyarrow (55 MB) is not among the dependencies: where it is missing, one slow test installs it into a folder and runs the
others with it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import DataError
from edge_agent.samples.entries import Listing
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.windows import window_entries
from models.sources.tables import table_rows
from tests.edge_agent.samples.pictures import old

ROOT = Path(__file__).resolve().parents[3]
THERE = importlib.util.find_spec("pyarrow") is not None
with_pyarrow = pytest.mark.skipif(not THERE, reason="*** NO PYARROW: PARQUET IS TESTED AGAINST A STAND-IN ALONE ***")


@pytest.mark.slow  # fetches a package of 55 MB
@pytest.mark.skipif(THERE, reason="pyarrow is installed: the tests below run by themselves")
def test_real_files_are_read(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--target"]
    done = subprocess.run([*pip, str(tmp_path / "own"), "pyarrow"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"*** PIP CANNOT INSTALL PYARROW: PARQUET IS NOT TESTED ***: {done.stderr[-300:]}")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", __file__],
        cwd=ROOT,
        env={**env, "PYTHONPATH": str(tmp_path / "own")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-5000:]
    assert "skipped" not in ran.stdout


def write(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, **how)
    return old(path, 60)


def windows(path: Path, **how: object) -> Listing:
    return window_entries(SourceSpec(path=str(path), kind="csv", **how), now=time.time(), limit=10**7)


def shown(listing: Listing) -> list[tuple[object, list[float]]]:
    return [(entry.label, entry.place.tolist()) for entry in listing.entries]


@with_pyarrow
@pytest.mark.parametrize(
    "column",
    [
        np.array([0, 1, 2], np.int8),
        np.array([0, 1, 2], np.uint64),
        np.array([0, 1, 2], np.float16),
        np.array([0, 1, 2], np.float32),
        [Decimal("0"), Decimal("1.0"), Decimal("2.00")],
        ["0", " 1", "2e0"],
    ],
    ids=["int8", "uint64", "float16", "float32", "decimal", "text"],
)
def test_numbers_of_every_type_are_channels(column: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"x": column, "label": ["a", "b", None]})
    assert shown(windows(path)) == [("a", [0.0]), ("b", [1.0]), (None, [2.0])]


@with_pyarrow
def test_labels_of_every_type_are_names_of_classes(tmp_path: Path) -> None:
    import pyarrow

    for column, labels in (
        (pyarrow.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (np.array([0, 1, 2]), ["0", "1", "2"]),
        (pyarrow.array([0.0, None, 2.0]), ["0", None, "2"]),  # as pandas writes whole numbers of which one is missing
        (np.array([0.0, np.nan, 1.5]), ["0", None, "1.5"]),
        ([b"a", b"\xff", None], ["a", "?", None]),
    ):
        path = write(tmp_path / "a.parquet", {"x": [1.0, 2.0, 3.0], "label": column})
        assert [None if e.label is None else e.label.replace("�", "?") for e in windows(path).entries] == labels


@with_pyarrow
def test_windows_cross_row_groups_and_batches(tmp_path: Path) -> None:
    columns = {"x": np.arange(10_000.0), "y": np.arange(10_000), "label": ["a"] * 10_000}
    path = write(tmp_path / "a.parquet", columns, row_group_size=100, compression="zstd")
    found = shown(windows(path, window=3, stride=1, columns=("y",)))
    assert len(found) == 9998
    assert found[98:101] == [("a", [98, 99, 100]), ("a", [99, 100, 101]), ("a", [100, 101, 102])]
    assert found[4095] == ("a", [4095, 4096, 4097])


@with_pyarrow
def test_missing_values_and_columns_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"x": [1.0, None, float("nan")], "y": [1, 2, 3], "label": ["a", "b", "c"]})
    found = windows(path)
    assert shown(found) == [("a", [1.0, 1.0])]
    assert {name: text.partition(";")[0] for name, text in found.rejected.items()} == {
        "a.parquet, row 3": "'x' is no finite number, or is missing",
        "a.parquet, row 4": "'x' is no finite number, or is missing",
    }
    times = {"t": np.array(["2026-01-01", "2026-01-02"], "datetime64[ms]"), "x": [1.0, 2.0], "deep": [[1], [2]]}
    path = write(tmp_path / "a.parquet", times)
    assert windows(path).rejected["a.parquet, row 2"] == (
        "'t' is no finite number, or is missing; if it is not a channel, name the channels in [data] columns"
    )
    assert shown(windows(path, columns=("x",))) == [(None, [1.0]), (None, [2.0])]
    assert "no column 'z' among t, x, deep" in windows(path, columns=("z",)).rejected["a.parquet"]


@with_pyarrow
def test_a_table_without_rows_or_columns_is_empty(tmp_path: Path) -> None:
    assert windows(write(tmp_path / "a.parquet", {"x": np.array([], np.float32), "label": []})).entries == []
    assert windows(write(tmp_path / "a.parquet", {})).entries == []


@with_pyarrow
def test_a_damaged_file_is_set_aside_with_the_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"x": np.arange(10_000.0), "label": ["a"] * 10_000})
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[200:2000] = b"\xff" * 1800
    for content in (good[:-100], b"", b"hello world", bytes(damaged)):
        path.write_bytes(content)
        old(path, 60)
        with pytest.raises(DataError, match="not a readable Parquet file"):
            list(table_rows(path, limit=10**7))
        found = windows(path)
        assert (found.entries, found.rejected["a.parquet"].partition(" (")[0]) == ([], "not a readable Parquet file")
    path.unlink()
    with pytest.raises(DataError, match="No such file or directory; check the path"):
        list(table_rows(path, limit=10**7))
