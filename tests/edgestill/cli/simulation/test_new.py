"""`edgestill new` names the files it has written and what to do next; a mistake is one line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.errors import ConfigError
from edgestill.cli.main import app


def test_the_next_commands_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "my-project"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "cd my-project\n" in done.stdout
    assert (tmp_path / "my-project" / "my_project" / "model.py").is_file()


def test_the_files_are_printed_as_json(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["new", str(tmp_path / "mine"), "--json"], catch_exceptions=False)
    facts = json.loads(done.stdout)
    assert facts["project"] == "mine"
    assert all(Path(file).is_file() for file in facts["files"])


def test_a_name_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="such as my-project"):
        CliRunner().invoke(app, ["new", "My Project"], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []
