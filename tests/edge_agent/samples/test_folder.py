"""A folder of pictures that grows: labels, files that are not finished or damaged."""

import os
import time
from pathlib import Path

import pytest

from core.errors import DataError
from edge_agent.samples.entries import Listing
from edge_agent.samples.folder import folder_entries
from edge_agent.samples.ledger import Ledger
from edge_agent.samples.spec import SourceSpec
from tests.edge_agent.samples.pictures import draw, old

pytestmark = pytest.mark.light


def listed(root: Path, *, stop_at: float = float("inf"), **more: str) -> Listing:
    state = root.parent / "state"
    state.mkdir(exist_ok=True)
    spec = SourceSpec(path=str(root), kind="folder", **more)
    return folder_entries(spec, Ledger(state), now=time.time(), stop_at=stop_at)


def labels(listing: Listing) -> dict[str, object]:
    return {entry.name: entry.label for entry in listing.entries}


def test_labels_are_the_subfolder_then_labels_csv_then_the_file_beside(tmp_path: Path) -> None:
    root = tmp_path / "p"
    for name in ("cat/a.png", "cat/b.png", "dog/c.JPG", "d.png", "e.png", "f.png"):
        draw(root / name)
    (root / "labels.csv").write_text("file,label\n./d.png, cat \ncat/b.png,dog\nx.png,cat\n")
    (root / "e.png.label").write_text("dog\nand a remark\n")
    (root / "cat" / "a.png.label").write_text("")  # a label is taken back
    assert labels(listed(root)) == {
        "cat/a.png": None,
        "cat/b.png": "dog",
        "d.png": "cat",
        "dog/c.JPG": "dog",
        "e.png": "dog",
        "f.png": None,
    }
    os.rename(root / "f.png", root / "cat" / "f.png")
    assert labels(listed(root))["cat/f.png"] == "cat"


def test_what_is_no_sample_is_listed_with_the_reason(tmp_path: Path) -> None:
    root = tmp_path / "p"
    draw(root / "cat" / "a.png")
    draw(root / "cat" / "deeper" / "b.png")
    (root / "cat" / "c.heic").write_bytes(b"")
    (root / "notes.txt").write_text("")
    (root / "cat" / "later.png.label").write_text("cat")
    (root / "labels.csv").write_text("file,label\ncat/a.png,cat\nx.png,dog\n")
    found = listed(root)
    assert (list(labels(found)), found.rejected) == (["cat/a.png"], {})
    assert found.passed_over["cat/deeper"] == "a folder in a class's folder is not looked into"
    assert found.passed_over["cat/c.heic"].startswith("not a picture by its name; known: .bmp")
    assert found.passed_over["x.png"] == "labels.csv has a label for it, but there is no such picture"
    assert sorted(found.passed_over) == ["cat/c.heic", "cat/deeper", "notes.txt", "x.png"]
    assert listed(root, labels="lables.csv").passed_over["lables.csv"] == "the file of [data] labels is not there"


def test_what_is_not_finished_hidden_or_no_picture_is_not_taken(tmp_path: Path) -> None:
    root = tmp_path / "p"
    draw(root / "cat" / "a.png")
    draw(root / "cat" / "now.png", age=0)
    draw(root / "cat" / ".hidden.png")
    draw(root / ".thumbs" / "a.png")
    (root / "cat" / "b.png.part").write_bytes(b"")
    (root / "cat" / "notes.txt").write_text("no picture")
    found = listed(root)
    assert (list(labels(found)), found.writing, found.rejected) == (["cat/a.png"], 1, {})
    old(root / "cat" / "now.png", 3)
    assert list(labels(listed(root))) == ["cat/a.png", "cat/now.png"]


def test_bad_files_are_set_aside_with_a_reason_and_stay_where_they_are(tmp_path: Path) -> None:
    root = tmp_path / "p"
    good = draw(root / "cat" / "good.png", size=(40, 40))
    content = good.read_bytes()
    for name, data in (("short.png", content[:-800]), ("text.png", b"hello"), ("empty.jpg", b"")):
        (root / "cat" / name).write_bytes(data)
        old(root / "cat" / name)
    os.mkfifo(root / "cat" / "pipe.png")
    old(root / "cat" / "pipe.png")
    (root / "labels.csv").write_text("a,b,c\n")
    old(root / "labels.csv")
    found = listed(root)
    assert list(labels(found)) == ["cat/good.png"]
    assert set(found.rejected) == {f"cat/{n}" for n in ("short.png", "text.png", "empty.jpg", "pipe.png")} | {
        "labels.csv, row 1"
    }
    assert "not a readable picture" in found.rejected["cat/text.png"]
    assert found.rejected["cat/pipe.png"] == "not a plain file"
    assert (root / "cat" / "short.png").exists()
    (root / "cat" / "text.png").write_bytes(content)  # replaced: looked at again
    old(root / "cat" / "text.png", 30)
    assert "cat/text.png" in labels(listed(root))


def test_a_file_is_opened_once_and_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "p"
    for name in ("a.png", "b.png"):
        draw(root / "cat" / name)
    before = {entry.name: entry.digest for entry in listed(root).entries}
    opened = []
    monkeypatch.setattr(
        "edge_agent.samples.folder.read_regular", lambda path, most: opened.append(path.name) or path.read_bytes()
    )
    assert {entry.name: entry.digest for entry in listed(root).entries} == before
    assert [name for name in opened if name.endswith(".png")] == []
    draw(root / "cat" / "a.png", 9, age=30)
    after = {entry.name: entry.digest for entry in listed(root).entries}
    assert [name for name in opened if name.endswith(".png")] == ["a.png"]
    assert after["cat/a.png"] != before["cat/a.png"]
    assert after["cat/b.png"] == before["cat/b.png"]


def test_what_there_is_no_time_for_is_left_for_the_next_time(tmp_path: Path) -> None:
    root = tmp_path / "p"
    draw(root / "cat" / "a.png")
    found = listed(root, stop_at=0.0)
    assert (found.entries, found.unchecked) == ([], 1)
    assert len(listed(root).entries) == 1
    assert len(listed(root, stop_at=0.0).entries) == 1


def test_names_that_are_no_text_cost_nothing(tmp_path: Path) -> None:
    root = tmp_path / "p"
    for folder, name in ((b"cat", b"\xff.png"), (b"c\xffat", b"a.png"), (b"c\nat", b"b\x1b[31m.png")):
        good = draw(root / "x.png")
        os.makedirs(os.path.join(os.fsencode(root), folder), exist_ok=True)
        os.rename(good, os.path.join(os.fsencode(root), folder, name))
    found = listed(root)
    assert labels(found) == {"cat/?.png": "cat", "c?at/a.png": "c?at", "c?at/b?[31m.png": "c?at"}
    assert found.rejected == {}


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        listed(tmp_path / "absent")
