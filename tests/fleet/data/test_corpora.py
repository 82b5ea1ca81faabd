"""AG News and SST-2, a few rows of each."""

import gzip
import zipfile
from pathlib import Path

import pytest

from core.errors import DataError
from fleet.data.corpora import ag_news, sst2, sst2_zip
from fleet.data.text import token_ids

SIZES = {"vocab": 100, "length": 4}


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_title_and_description_are_joined_and_labels_start_at_0(tmp_path: Path) -> None:
    train = written(tmp_path / "train.csv", b'"3","Oil, up","again ""today"""\n"1","War","ends"\n')
    test = written(tmp_path / "test.csv.gz", b'"4","Moon landing"\n')
    data = ag_news([train, test], **SIZES)
    assert data.y_train.tolist() == [2, 0]
    assert data.y_test.tolist() == [3]
    assert data.x_train.tolist() == token_ids(["oil up again today", "war ends"], **SIZES).tolist()
    assert (data.input_shape, data.vocab, data.variant) == ((4,), 100, "full")


def test_a_subset_is_called_one(tmp_path: Path) -> None:
    rows = b'"1","a"\n"2","b"\n'
    paths = [written(tmp_path / "train_subset.csv.gz", rows), written(tmp_path / "test.csv", rows)]
    assert ag_news(paths, **SIZES).variant == "subset"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'"5","a","b"\n', "row 1: expected a label of 1 to 4"),
        (b'"1","a","b"\n"0","c","d"\n', "row 2: expected"),
        (b'"1"\n', "row 1: expected"),
        (b"", "no rows"),
        (b'"1","\xff"\n', "byte 5 is not UTF-8"),
        (b'"1","' + b"x" * 140_000 + b'"\n', "not a readable csv"),
    ],
)
def test_malformed_news_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    path = written(tmp_path / "train.csv", data)
    with pytest.raises(DataError, match=says):
        ag_news([path, path], **SIZES)


def test_sentences_and_labels_are_split_at_the_last_tab_and_lines_at_newlines_only(tmp_path: Path) -> None:
    path = written(tmp_path / "train.tsv.gz", "sentence\tlabel\na fine film \t1\ndull\x85stuff \t0\n".encode())
    data = sst2([path, path], **SIZES)
    assert data.y_train.tolist() == [1, 0]
    assert data.x_train[1].tolist() == token_ids(["dull stuff"], **SIZES)[0].tolist()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a fine film\t1\n", "the first line is 'a fine film"),
        (b"sentence\tlabel\nfine\n", "line 2: expected a sentence, a tab and 0 or 1"),
        (b"sentence\tlabel\nfine\t2\n", "line 2: expected"),
        (b"sentence\tlabel\nfine\t1\n\nbad\t0\n", "line 3: expected"),
        (b"sentence\tlabel\n", "no rows"),
    ],
)
def test_malformed_sentences_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    path = written(tmp_path / "train.tsv", data)
    with pytest.raises(DataError, match=says):
        sst2([path, path], **SIZES)


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


ROWS = b"sentence\tlabel\na fine film \t1\ndull \t0\n"


def test_the_glue_zip_holds_the_same(tmp_path: Path) -> None:
    path = zipped(tmp_path / "SST-2.zip", {"SST-2/train.tsv": ROWS, "SST-2/dev.tsv": ROWS, "SST-2/test.tsv": b"?"})
    data = sst2_zip(path, **SIZES)
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([1, 0], [1, 0])


def test_a_zip_without_the_members_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"SST-2/dev\.tsv.*is it GLUE's SST-2\.zip"):
        sst2_zip(zipped(tmp_path / "SST-2.zip", {"SST-2/train.tsv": ROWS, "../dev.tsv": ROWS}), **SIZES)


def test_a_zip_bomb_is_stopped_at_the_limit(tmp_path: Path) -> None:
    path = zipped(tmp_path / "SST-2.zip", {"SST-2/train.tsv": bytes(65 << 20), "SST-2/dev.tsv": ROWS})
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DataError, match=r"SST-2/train\.tsv is larger than"):
        sst2_zip(path, **SIZES)


def test_a_damaged_zip_says_so(tmp_path: Path) -> None:
    path = zipped(tmp_path / "SST-2.zip", {"SST-2/train.tsv": ROWS, "SST-2/dev.tsv": ROWS})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="damaged or cut short"):
        sst2_zip(path, **SIZES)
