"""The folder for applications: graph and card always belong together, and its readers need no right on the state."""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path

import pytest

from edge_agent.predict.model import Model
from edge_agent.state.published import Published, publish_model
from tests.edge_agent.predict.boards import images, leave_model

pytestmark = pytest.mark.light


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_model_is_published_once_and_the_one_before_stays_until_the_next(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    files = []
    for number in (1, 2, 3):
        card = leave_model(state, number % 3, round=number)
        assert publish_model(state, out)
        assert not publish_model(state, out)
        files.append(f"current-{card.sha256[:12]}.onnx")
        assert json.loads((out / "current.json").read_text())["file"] == files[-1]
        assert os.readlink(out / "current.onnx") == files[-1]
        assert Model(out).card.round == Model(out / "current.onnx").card.round == number
    assert names(out) == sorted(["current.json", "current.onnx", *files[1:]])


def test_everybody_who_may_enter_the_folder_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    leave_model(tmp_path / "state")
    before = os.umask(0o077)
    try:
        publish_model(tmp_path / "state", tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in (tmp_path / "out").iterdir())
    (tmp_path / "out").chmod(0o750)  # an operator's choice stays
    leave_model(tmp_path / "state", 1)
    publish_model(tmp_path / "state", tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750


def test_a_reader_always_has_a_pair_that_belongs_together(tmp_path: Path) -> None:
    """A copy that stops anywhere: the reader has the model before, or the new one."""
    state, out = tmp_path / "state", tmp_path / "out"
    leave_model(state, 0, round=1)
    publish_model(state, out)
    leave_model(state, 1, round=2)
    real, left = os.replace, 0

    def replace(*args: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise OSError(28, "No space left on device")
        real(*args)

    for fails_at in (1, 2, 3, 4):
        left = fails_at
        with pytest.MonkeyPatch.context() as patch, suppress(OSError):
            patch.setattr(os, "replace", replace)
            publish_model(state, out)
        assert Model(out).predict(images(1)).card.round in (1, 2)
    assert Model(out).card.round == 2
    assert not [name for name in names(out) if name.startswith(".")]


def test_a_new_model_is_published_when_it_is_there_and_a_failure_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    for level in ("info", "warning"):  # not by the handlers of the process, which other tests have set up
        monkeypatch.setattr(logging.getLogger("edgestill.agent"), level, lambda text, *args: said.append(text % args))
    (tmp_path / "file").write_text("in the way")
    state, out = tmp_path / "state", tmp_path / "file" / "out"
    published = Published(state, out)
    published.poll(0.0)  # no model yet
    leave_model(state)
    for now in (0.0, 1.0, 31.0):
        published.poll(now)
    assert [text for text in said if "the model is not published" in text] == said[-1:]  # once, though tried twice
    (tmp_path / "file").unlink()
    published.poll(32.0)
    assert not out.exists()
    published.poll(62.0)
    assert Model(out).card.round == 1
    assert "the model is published in" in said[-1]


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"card": 1}', '{"card": 9}'])
def test_a_card_that_is_damaged_or_of_an_older_agent_ends_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("edgestill").propagate = True
    leave_model(tmp_path / "state")
    (tmp_path / "state" / "current.json").write_text(text)
    Published(tmp_path / "state", tmp_path / "out").poll(0.0)
    assert "the model is not published" in caplog.text


def test_without_a_folder_nothing_is_published(tmp_path: Path) -> None:
    leave_model(tmp_path / "state")
    Published(tmp_path / "state", None).poll(0.0)
    assert names(tmp_path) == ["state"]
