"""A report's files: names that can be written, and the page last."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from fleet.report import write
from fleet.report.figures.catalogue import Picture
from fleet.report.write import check_out, write_report
from tests.fleet.report.made import facts

PICTURES = [
    Picture(name=name, title="t", caption="c", alt="a", light=b"light" * 5, dark=b"dark" * 6) for name in ("x", "y")
]


def test_a_report_is_html_in_a_folder_that_exists(tmp_path: Path) -> None:
    check_out(tmp_path / "r.html")
    check_out(tmp_path / "R.HTM")
    (tmp_path / "folder.html").mkdir()
    for name, words in (
        ("r.pdf", "the report is HTML; give a name that ends in .html"),
        ("r", "ends in .html"),
        ("absent/r.html", "in a folder that exists"),
        ("folder.html", "the name of a file"),
    ):
        with pytest.raises(ConfigError, match=words):
            check_out(tmp_path / name)


def test_the_page_comes_first_with_a_light_picture_beside_it_for_each_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "draw_all", lambda runs, target: PICTURES)
    files = write_report([facts(tmp_path / "run")], tmp_path / "my.report.html", target=0.7)
    assert [file.name for file in files] == ["my.report.html", "my.report-x.png", "my.report-y.png"]
    assert files[1].read_bytes() == b"light" * 5
    assert "<html" in files[0].read_text()


def test_where_drawing_fails_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ValueError("no such colour")

    run = facts(tmp_path / "run")
    monkeypatch.setattr(write, "draw_all", lambda runs, target: PICTURES)
    monkeypatch.setattr(write, "page", fail)
    with pytest.raises(ValueError, match="no such colour"):
        write_report([run], tmp_path / "r.html", target=0.7)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
