"""A user's csv."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from fleet.data import load
from fleet.data.text import token_ids


def saved(tmp_path: Path, text: str, name: str = "own.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_a_header_names_the_label_and_the_rest_are_features(tmp_path: Path) -> None:
    data = load(saved(tmp_path, "width,Label,height\n1,cat,2\n3,dog,4\n"))
    assert (data.kind, data.input_shape, data.class_names) == ("features", (2,), ("cat", "dog"))
    assert data.x_train.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_text_column_makes_it_text_and_others_are_left_out(tmp_path: Path) -> None:
    data = load(saved(tmp_path, 'id,text,label\n1,"Good, really",1\n2,bad,0\n'), vocab=50, length=3)
    assert (data.kind, data.vocab, data.input_shape) == ("text", 50, (3,))
    assert data.x_train.tolist() == token_ids(["good really", "bad"], vocab=50, length=3).tolist()
    assert data.y_train.tolist() == [1, 0]


def test_without_a_header_the_first_column_is_the_label(tmp_path: Path) -> None:
    data = load(saved(tmp_path, "0,1.5,2\n1,2.5,-1e3\n"))
    assert (data.kind, data.x_train.tolist()) == ("features", [[1.5, 2.0], [2.5, -1000.0]])


def test_without_a_header_words_make_it_text(tmp_path: Path) -> None:
    data = load(saved(tmp_path, "spam,buy now,2 for 1\nham,see you,at 5\n", "own.csv.gz"), length=8)
    assert (data.kind, data.class_names) == ("text", ("ham", "spam"))
    assert data.x_train[0].tolist() == token_ids(["buy now 2 for 1"], length=8)[0].tolist()


def test_a_byte_order_mark_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    data = load(saved(tmp_path, "\ufefflabel,a\n0,1\n\n1,2\n"))
    assert data.x_train.reshape(-1).tolist() == [1.0, 2.0]


def test_ten_rows_a_class_leave_two_for_the_test(tmp_path: Path) -> None:
    data = load(saved(tmp_path, "label,a\n" + "".join(f"{i % 2},{i}\n" for i in range(20))))
    assert np.bincount(data.y_test).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no rows"),
        ("label,a\n", "no rows"),
        ("label,a\n0,1\n1\n", "row 3 has 1 columns, the first row 2"),
        ("label,a\n0,x\n1,2\n", "row 2, column 'a': 'x' is not a finite number"),
        ("label,a\n0,nan\n1,2\n", "'nan' is not a finite number"),
        ("label,a\n0,1e300\n1,2\n", "train sample 0 holds NaN or infinity"),
        ("label,a\n0,\n1,2\n", "row 2, column 'a': '' is not a finite number"),
        ("label,a\n,1\n1,2\n", "row 2 has no label"),
        ("label,class,a\n0,1,2\n", r"2 columns could be the label \(label, class\)"),
        ("label\n0\n1\n", "only a label column"),
        ("width,height,kind\n1,2,cat\n3,4,dog\n", "first row looks like column names, but none is 'label'"),
        ("label,a\n0,1\n0,2\n", "every sample has the label '0'"),
        ('label,a\n0,"' + "x" * 140_000 + '"\n', "not a readable csv"),
    ],
)
def test_a_malformed_table_is_refused_by_its_row(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        load(saved(tmp_path, text))


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes("label,text\n0,caf\xe9\n".encode("latin-1"))
    with pytest.raises(DataError, match="is not UTF-8; save the table as UTF-8"):
        load(path)
