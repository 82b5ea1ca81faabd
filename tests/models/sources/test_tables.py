"""Rows of tables."""

import gzip
import sys
import types
from pathlib import Path

import pytest

from core.errors import ConfigError, DataError
from models.sources.tables import is_number, label_column, number, table_rows

pytestmark = pytest.mark.light


def test_rows_come_one_by_one_without_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n\n1,"x, y"\n2,z')
    assert list(table_rows(path, limit=100)) == [["a", "b"], ["1", "x, y"], ["2", "z"]]
    assert list(table_rows(path, limit=100, partial=True)) == [["a", "b"], ["1", "x, y"]]
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(table_rows(packed, limit=100)) == list(table_rows(path, limit=100))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"x" * 200, "more than 100 bytes"),
        ("a.csv", b"a,b\n\xff\n", "is not UTF-8"),
        ("a.csv.gz", gzip.compress(b"a,b\n" * 9, mtime=0)[:-9], "damaged or cut short"),
        ("a.csv.gz", b"plain", "damaged or cut short"),
    ],
)
def test_a_damaged_table_is_told(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(table_rows(tmp_path / name, limit=100))
    with pytest.raises(DataError, match="No such file"):
        list(table_rows(tmp_path / "absent.csv", limit=100))


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match="needs pyarrow, which is missing; install it, or save a csv"):
        list(table_rows(tmp_path / "a.parquet", limit=100))


def test_rows_of_parquet_come_from_batches_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the calls that pyarrow has, in its place: it is not among the dependencies."""

    class Column(list):
        def to_pylist(self) -> list:
            return list(self)

    class ParquetFile:
        schema_arrow = types.SimpleNamespace(names=["a", "label"])

        def __init__(self, file: object) -> None:
            assert file.read(4) == b"PAR1"  # type: ignore[attr-defined]

        def iter_batches(self, batch_size: int) -> list:
            return [types.SimpleNamespace(columns=[Column([1.5, None]), Column(["x", "y"])])]

    parquet = types.ModuleType("pyarrow.parquet")
    parquet.ParquetFile = ParquetFile  # type: ignore[attr-defined]
    package = types.ModuleType("pyarrow")
    package.parquet = parquet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    assert list(table_rows(path, limit=100)) == [("a", "label"), (1.5, "x"), (None, "y")]
    with pytest.raises(DataError, match="larger than the 3 bytes"):
        list(table_rows(path, limit=3))


def test_numbers_are_finite() -> None:
    assert [number(cell) for cell in ("1.5", 2, " 3 ", "nan", "inf", "", None, "x")] == [1.5, 2.0, 3.0, *[None] * 5]
    assert is_number("-1e3")
    assert not is_number("1,5")


def test_one_column_is_the_label() -> None:
    assert label_column(Path("a"), ["x", "class"]) == 1
    assert label_column(Path("a"), ["x"]) is None
    with pytest.raises(DataError, match="2 columns could be the label"):
        label_column(Path("a"), ["label", "class"])
