"""Users' code by name, and from files."""

from pathlib import Path

import pytest

from core import own_code
from core.errors import ConfigError
from core.own_code import found, in_file, lend, load, names, plain_name, when_changed

pytestmark = pytest.mark.light


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "_lent", {})
    monkeypatch.setattr(own_code, "_changed", [])


def test_a_name_is_found_by_kind() -> None:
    lend("model", "MyNet", "net")
    assert (found("model", "MyNet"), found("dataset", "MyNet"), names("model")) == ("net", None, ("MyNet",))


def test_caches_are_told_when_a_name_gets_another_object() -> None:
    told: list[int] = []
    when_changed(lambda: told.append(1))
    first, second = object(), object()
    for thing in (first, first, second):
        lend("model", "MyNet", thing)
    assert told == [1]


def test_names_in_files() -> None:
    assert in_file("net.py:MyNet")
    assert in_file("/a/b c/net.py:MyNet")
    assert not in_file("cnn:w1")
    assert not in_file("net.py:MyNet:w1")
    assert plain_name("dir/net.py:MyNet:w1") == "MyNet:w1"


def test_a_file_is_executed_once_per_content_and_finds_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "helper_of_own.py").write_text("VALUE = 7\n")
    file = tmp_path / "own.py"
    file.write_text("import helper_of_own\nthing = [helper_of_own.VALUE]\n")
    thing = load(f"{file}:thing")
    assert thing == [7]
    assert load(f"{file}:thing") is thing
    file.write_text("thing = [8]\n")
    assert load(f"{file}:thing") == [8]


@pytest.mark.parametrize(
    ("text", "content", "says"),
    [
        ("own.py", "", "write FILE.py:NAME"),
        ("none.py:x", "", "no such file or directory; give the path"),
        ("own.py:MyNett", "MyNet = 1", "has no 'MyNett'; did you mean 'MyNet'"),
        ("own.py:x", "1 / 0", r"does not load \(ZeroDivisionError"),
        ("own.py:x", "x =", r"does not load \(SyntaxError"),
    ],
)
def test_mistakes_are_one_line(
    text: str, content: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(content)
    with pytest.raises(ConfigError, match=says) as caught:
        load(text)
    assert "\n" not in str(caught.value)
