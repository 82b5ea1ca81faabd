"""The model as an application has it: loaded from every kind of path, reloaded, and in words where that fails."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError, ModelError
from edge_agent.predict.model import Model
from edge_agent.state.published import publish_model
from tests.edge_agent.predict.boards import MEAN, NAMES, STD, images, leave_model, tiny_card, tiny_graph

pytestmark = pytest.mark.light


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("name", ["", "current.json", "current.onnx"])
def test_bytes_of_images_get_labels_and_probabilities(tmp_path: Path, raw: bool, name: str) -> None:
    leave_model(tmp_path, raw=raw)
    answer = Model(tmp_path / name).predict(images(5))
    assert answer.labels == ("ant", "bee", "cat", "ant", "bee")
    assert answer.classes.tolist() == [0, 1, 2, 0, 1]
    assert np.abs(answer.probabilities.sum(1) - 1).max() < 1e-6
    assert (answer.logits is None) is raw


def test_a_raw_graph_and_a_plain_one_answer_alike(tmp_path: Path) -> None:
    leave_model(tmp_path / "raw", raw=True)
    leave_model(tmp_path / "plain", raw=False)
    raw, plain = (Model(tmp_path / name).predict(images(130)).probabilities for name in ("raw", "plain"))
    assert np.abs(raw - plain).max() < 1e-6
    column = (-1, 1, 1)
    normalized = (images(3) - np.float32(MEAN).reshape(column)) / np.float32(STD).reshape(column)
    assert np.abs(Model(tmp_path / "plain").predict(normalized).probabilities - raw[:3]).max() < 1e-6


def test_a_published_folder_is_read_like_a_state_folder(tmp_path: Path) -> None:
    leave_model(tmp_path / "state")
    publish_model(tmp_path / "state", tmp_path / "out")
    model = Model(tmp_path / "out")
    assert model.classes == NAMES
    assert model.predict(images(1)[0]).labels == ("ant",)


def test_a_new_model_is_loaded_when_it_is_there(tmp_path: Path) -> None:
    leave_model(tmp_path, 0)
    model, flat = Model(tmp_path), np.full((3, 4, 2), 110, np.uint8)
    assert not model.reload()
    before = model.predict(flat)
    leave_model(tmp_path, 2, round=2)
    assert model.predict(flat).labels == before.labels  # not before reload
    assert model.reload()
    assert (model.card.round, model.predict(flat).card.round) == (2, 2)
    assert not model.reload()


def test_watch_reloads_until_its_block_ends(tmp_path: Path) -> None:
    leave_model(tmp_path)
    with Model(tmp_path).watch(0.01) as model:
        leave_model(tmp_path, 1, round=7)
        until = time.monotonic() + 120
        while model.card.round != 7 and time.monotonic() < until:
            time.sleep(0.01)
    assert model.card.round == 7
    assert "model watch" not in {thread.name for thread in threading.enumerate()}


def test_a_new_model_that_is_damaged_leaves_the_one_before_in_use(tmp_path: Path) -> None:
    leave_model(tmp_path)
    model = Model(tmp_path)
    (tmp_path / "current.json").write_text("{")
    with pytest.raises(ModelError, match="not a model card"):
        model.reload()
    assert model.predict(images(1)).labels == ("ant",)


def test_card_and_graph_that_are_being_replaced_are_waited_for(tmp_path: Path) -> None:
    leave_model(tmp_path / "new", 1, round=2)
    leave_model(tmp_path / "at", 0, round=1)
    os.replace(tmp_path / "new/current.onnx", tmp_path / "at/current.onnx")
    threading.Timer(0.2, os.replace, (tmp_path / "new/current.json", tmp_path / "at/current.json")).start()
    assert Model(tmp_path / "at").card.round == 2


def test_card_and_graph_that_do_not_belong_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_agent.predict.model.PATIENCE_S", 0.1)
    leave_model(tmp_path)
    (tmp_path / "current.onnx").write_bytes(tiny_graph(1))
    with pytest.raises(ModelError, match="the card of another file"):
        Model(tmp_path)
    (tmp_path / "current.onnx").unlink()
    with pytest.raises(ModelError, match="there is no model yet"):
        Model(tmp_path)


def test_a_file_of_an_older_agent_is_described_by_its_graph(tmp_path: Path) -> None:
    (tmp_path / "current.onnx").write_bytes(tiny_graph())
    (tmp_path / "current.json").write_text(json.dumps({"prototype": "tiny:fp32", "round": 3}))
    for path in (tmp_path, tmp_path / "current.onnx"):
        model = Model(path)
        assert model.classes == ("0", "1", "2")
        assert model.card.input.shape == (3, 4, 2)
        assert model.predict(np.zeros((2, 3, 4, 2), np.float32)).labels == ("0", "0")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda p: None, "there is no model yet"),
        (lambda p: (p / "current.onnx").write_bytes(b"garbage"), r"^/.*: ONNX Runtime .* does not load the graph"),
        (lambda p: (p / "current.json").mkdir(), "a folder"),
        (lambda p: (p / "current.json").write_text(tiny_card(file="../x.onnx").to_json()), "not a file beside it"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_line(tmp_path: Path, make, told: str) -> None:
    make(tmp_path)
    with pytest.raises(ModelError, match=told) as refused:
        Model(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_user_who_may_not_read_the_state_folder_is_told_which_to_give(tmp_path: Path) -> None:
    leave_model(tmp_path / "state")
    (tmp_path / "state").chmod(0o700)
    user = os.geteuid()
    try:
        os.seteuid(65534)
        with pytest.raises(ModelError, match=r"may not be read by this user; give the folder of \[model\] publish"):
            Model(tmp_path / "state")
    finally:
        os.seteuid(user)


def test_wrong_inputs_are_told_in_words(tmp_path: Path) -> None:
    leave_model(tmp_path)
    with pytest.raises(DataError, match=r"did you mean to transpose it: x.transpose\(0, 3, 1, 2\)"):
        Model(tmp_path).predict(np.zeros((5, 4, 2, 3), np.uint8))


def test_the_front_door_needs_neither_torch_nor_onnx(tmp_path: Path) -> None:
    leave_model(tmp_path)
    np.save(tmp_path / "x.npy", images(2))
    code = (
        "import sys; from edgestill.device import Model; "
        f"print(Model({str(tmp_path)!r}).predict({str(tmp_path / 'x.npy')!r}).labels, "
        "[m for m in ('torch', 'onnx', 'paho', 'cryptography') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "('ant', 'bee') []\n"
