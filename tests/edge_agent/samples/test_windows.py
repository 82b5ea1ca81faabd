"""Windows of a sensor."""

import time
from array import array
from pathlib import Path

import pytest

from core.errors import DataError
from edge_agent.samples.entries import Listing
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.windows import window_entries
from tests.edge_agent.samples.pictures import old

pytestmark = pytest.mark.light


def windows(path: Path, *, limit: int = 10**6, **how: object) -> Listing:
    return window_entries(SourceSpec(path=str(path), kind="csv", **how), now=time.time(), limit=limit)


def write(path: Path, *rows: str, age: float = 60.0) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows))
    return old(path, age)


def shown(listing: Listing) -> list[tuple[str, object, list[float]]]:
    return [(entry.name, entry.label, entry.place.tolist()) for entry in listing.entries]


def test_without_a_window_a_row_is_a_sample(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "Label,x,y", "cat,1,2", ",3,4", "dog,5,6")
    assert shown(windows(path)) == [
        ("a.csv, row 2", "cat", [1, 2]),
        ("a.csv, row 3", None, [3, 4]),
        ("a.csv, row 4", "dog", [5, 6]),
    ]


def test_what_is_no_table_is_listed_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "x", "1")
    for name in ("a.xlsx", "b.csv.part", ".hidden"):
        (tmp_path / name).write_bytes(b"")
    write(tmp_path / "labels.csv", "file,label", "a.csv,cat", "gone.csv,dog")
    found = windows(tmp_path)
    assert [entry.label for entry in found.entries] == ["cat"]
    assert found.passed_over == {
        "a.xlsx": "not a table by its name; known: .csv .csv.gz .parquet",
        "gone.csv": "labels.csv has a label for it, but there is no such table",
    }
    write(tmp_path / "own.csv", "file,label", "a.csv,dog")
    found = windows(tmp_path, labels="own.csv")
    assert {entry.name: entry.label for entry in found.entries if entry.label} == {"a.csv, row 2": "dog"}


def test_windows_are_channels_first_and_stay_when_rows_are_appended(tmp_path: Path) -> None:
    rows = [f"{i},{10 * i},walk" for i in range(6)] + [f"{i},{10 * i},run" for i in range(6, 11)]
    path = write(tmp_path / "a.csv", "x,y,label", *rows)
    how = {"window": 3, "stride": 2, "columns": ("y", "x")}
    before = shown(windows(path, **how))
    assert before == [
        ("a.csv, row 2", "walk", [0, 10, 20, 0, 1, 2]),
        ("a.csv, row 4", "walk", [20, 30, 40, 2, 3, 4]),
        ("a.csv, row 8", "run", [60, 70, 80, 6, 7, 8]),
        ("a.csv, row 10", "run", [80, 90, 100, 8, 9, 10]),
    ]
    write(path, "x,y,label", *rows, "11,110,run", "12,120,run")
    after = shown(windows(path, **how))
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1
    apart = shown(windows(path, window=2, stride=4, columns=("x",)))
    assert [values for _, _, values in apart] == [[0, 1], [4, 5], [6, 7], [10, 11]]


def test_bad_rows_are_set_aside_and_end_a_window(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,label", "1,a", "nan,a", "2,a", "3,a", "4", "5,a", "oops,a", "1e39,a")
    found = windows(path, window=2)
    assert shown(found) == [("a.csv, row 4", "a", [2, 3])]
    assert set(found.rejected) == {f"a.csv, row {row}" for row in (3, 6, 8, 9)}
    many = write(tmp_path / "b.csv", "x,label", *["x,a"] * 100)
    found = windows(many)
    assert found.rejected["b.csv"].startswith("100 rows with a cell that is no finite number; if")
    assert len(found.rejected) == 21


def test_a_growing_table_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,label\n1,a\n2,a\n33")
    assert [values for _, _, values in shown(windows(path))] == [[1], [2]]
    path.write_text("x,label\n1,a\n2,a")
    old(path)
    assert len(windows(path).entries) == 2
    (tmp_path / "b.csv.gz").write_bytes(b"half")
    assert windows(tmp_path).writing == 1


def test_a_folder_of_tables_takes_labels_of_files(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        write(tmp_path / f"{name}.csv", "x", "1")
    (tmp_path / "a.csv.label").write_text("walk")
    write(tmp_path / "labels.csv", "b.csv,run")
    write(tmp_path / "d.csv", "x,label", "1,run")
    write(tmp_path / ".e.csv", "x", "1")
    found = windows(tmp_path)
    assert [(entry.name[0], entry.label) for entry in found.entries] == [
        ("a", "walk"),
        ("b", "run"),
        ("c", None),
        ("d", "run"),
    ]
    assert found.rejected == {}


@pytest.mark.parametrize(
    ("rows", "how", "reason"),
    [
        (["x,label", "1,a"], {"columns": ("z",)}, "no column 'z' among x, label"),
        (["x,label", "1,a"], {"label_column": "kind"}, "no column 'kind' among x, label"),
        (["label", "a"], {}, "only a label column"),
        (["label,class", "a,b"], {}, "could be the label"),
    ],
)
def test_a_table_that_does_not_fit_is_set_aside_alone(
    tmp_path: Path, rows: list[str], how: dict[str, object], reason: str
) -> None:
    write(tmp_path / "a.csv", *rows)
    found = windows(tmp_path, **how)
    assert found.entries == []
    assert reason in found.rejected["a.csv"]


def test_hostile_tables_cost_themselves_alone(tmp_path: Path) -> None:
    write(tmp_path / "good.csv", "x,label", "1,a")
    for name, content in (
        ("a", b"\xff\xfe\x00"),
        ("b", b'x,"' + b"y" * 200_000),
        ("c", b""),
        ("d", b"x\x00,label\n1,a\n"),
    ):
        (tmp_path / f"{name}.csv").write_bytes(content)
        old(tmp_path / f"{name}.csv")
    found = windows(tmp_path)
    assert "good.csv, row 2" in [entry.name for entry in found.entries]
    assert {"a.csv", "b.csv"} <= set(found.rejected)


def test_no_more_is_read_than_the_memory_takes_the_newest_first(tmp_path: Path) -> None:
    write(tmp_path / "new.csv", "x,label", *["1,a"] * 4, age=10)
    write(tmp_path / "old.csv", "x,label", *["2,a"] * 4, age=100)
    found = windows(tmp_path, limit=4 * 6)
    assert [entry.place for entry in found.entries] == [array("f", [1])] * 4 + [array("f", [2])] * 2 or found.rejected
    assert sum(entry.place == array("f", [1]) for entry in found.entries) == 4


def test_a_path_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        windows(tmp_path / "absent.csv")
