"""From a source to training samples."""

import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from edge_agent.samples.read import Board, array_rows, memory_limit, read_samples, survey_samples
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.task_file import KnownTask
from tests.edge_agent.samples.pictures import draw, old
from wire.messages import Task

pytestmark = pytest.mark.light
CATS = KnownTask(input_shape=(1, 4, 4), classes=2, task=Task(class_names=("cat", "dog"), mean=(100.0,), std=(50.0,)))


def board(tmp_path: Path, known: KnownTask, **spec: object) -> Board:
    state = tmp_path / "state"
    state.mkdir(exist_ok=True)
    return read_samples(SourceSpec(**spec), state, known)


def pictures(root: Path, count: int = 10) -> Path:
    for i in range(count):
        draw(root / "cat" / f"{i}.png", 50)
        draw(root / "dog" / f"{i}.png", 200, size=(16, 8), mode="RGB")
    return root


def test_pictures_are_resized_to_the_task_and_normalised_by_it(tmp_path: Path) -> None:
    root = pictures(tmp_path / "p")
    found = board(tmp_path, CATS, path=str(root), kind="folder")
    assert (found.train.x.shape, found.train.x.dtype) == ((20, 1, 4, 4), np.float32)
    assert found.train.y.tolist() == [0] * 10 + [1] * 10
    assert found.held is None
    assert abs(float(found.train.x[:10].mean()) + 1) < 0.2  # (50 - 100) / 50
    assert abs(float(found.train.x[10:].mean()) - 2) < 0.2
    colour = KnownTask(input_shape=(3, 8, 8), classes=2, task=Task(class_names=("cat", "dog")))
    rgb = board(tmp_path, colour, path=str(root), kind="folder").train.x
    assert rgb.shape == (20, 3, 8, 8)
    assert 0 <= rgb.min() < rgb.max() <= 1  # bytes divided by 255


def test_a_growing_folder_keeps_what_is_held_out_held_out(tmp_path: Path) -> None:
    root = pictures(tmp_path / "p", 20)
    before = board(tmp_path, CATS, path=str(root), kind="folder", validation=0.3)
    pictures(root, 40)
    after = board(tmp_path, CATS, path=str(root), kind="folder", validation=0.3)
    assert before.held is not None
    assert after.held is not None
    assert len(before.held) + len(before.train) == 40
    assert len(after.held) + len(after.train) == 80
    held = {row.tobytes() for row in after.held.x}
    assert {row.tobytes() for row in before.held.x} <= held
    assert not held & {row.tobytes() for row in after.train.x}


def test_what_is_lacking_and_unknown_is_told_and_not_guessed(tmp_path: Path) -> None:
    root = tmp_path / "p"
    draw(root / "cat" / "a.png")
    draw(root / "Dog" / "b.png")
    draw(root / "1" / "c.png")
    survey = board(tmp_path, CATS, path=str(root), kind="folder").survey
    assert (survey.counts, survey.unknown, survey.lacks) == ({"cat": 1}, {"1": 1, "Dog": 1}, ("dog",))
    assert survey.label_counts == (1,)


def test_a_file_that_is_damaged_between_two_looks_is_set_aside(tmp_path: Path) -> None:
    root = pictures(tmp_path / "p", 3)
    state = tmp_path / "state"
    state.mkdir()
    spec = SourceSpec(path=str(root), kind="folder")
    survey_samples(spec, state, CATS)
    file = root / "cat" / "1.png"
    times = file.stat().st_mtime_ns
    file.write_bytes(b"\0" * file.stat().st_size)  # a bad block: same size, same time
    os.utime(file, ns=(times, times))
    found = read_samples(spec, state, CATS)
    assert (len(found.train), found.survey.training) == (5, 5)
    assert list(found.survey.rejected) == ["cat/1.png"]
    assert survey_samples(spec, state, CATS)[0].rejected_count == 1


def test_pictures_for_a_model_that_takes_none_are_told_at_once(tmp_path: Path) -> None:
    flat = KnownTask(input_shape=(16,), classes=2, task=Task(class_names=("cat", "dog")))
    spec = {"path": str(pictures(tmp_path / "p", 1)), "kind": "folder"}
    with pytest.raises(DataError, match=r"pictures for a model of \(16,\)"):
        board(tmp_path, flat, **spec)
    survey = survey_samples(SourceSpec(**spec), tmp_path, flat)[0]
    assert not survey.ready
    assert "pictures for a model of (16,)" in survey.problem


def test_memory_bounds_how_many_are_decoded(tmp_path: Path) -> None:
    root = pictures(tmp_path / "p", 5)
    spec = {"path": str(root), "kind": "folder", "memory_mb": 1}
    assert memory_limit(SourceSpec(**spec)) == 2**19
    large = KnownTask(input_shape=(3, 120, 120), classes=2, task=Task(class_names=("cat", "dog")))
    found = board(tmp_path, large, **spec)  # 172,800 bytes each
    assert (len(found.train), found.survey.capped) == (3, 7)


def test_windows_become_inputs_of_the_models_shape(tmp_path: Path) -> None:
    rows = "".join(f"{i},{-i},{'ab'[i // 8]}\n" for i in range(16))
    (tmp_path / "s.csv").write_text("x,y,label\n" + rows)
    old(tmp_path / "s.csv")
    known = KnownTask(input_shape=(2, 4), classes=2, task=Task(class_names=("a", "b"), mean=(1.0, 0.0), std=(2.0, 1.0)))
    found = board(tmp_path, known, path=str(tmp_path / "s.csv"), kind="csv", window=4)
    assert found.train.y.tolist() == [0, 0, 1, 1]
    assert found.train.x[0].tolist() == [[-0.5, 0, 0.5, 1], [0, -1, -2, -3]]
    wrong = board(tmp_path, known, path=str(tmp_path / "s.csv"), kind="csv", window=3)
    assert wrong.survey.rejected == {"s.csv": "windows of 6 values for a model of (2, 4); check columns and window"}


def test_arrays_are_used_as_before_unless_the_task_says_how(tmp_path: Path) -> None:
    plain = KnownTask(input_shape=(2,), classes=2)
    told = KnownTask(input_shape=(2,), classes=2, task=Task(mean=(10.0,), std=(2.0,)))
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([[10, 12]], np.uint8), y=[1], mean=[12.0], std=[1.0])
    assert board(tmp_path, plain, path=str(path)).train.x.tolist() == [[-2, 0]]
    assert board(tmp_path, told, path=str(path)).train.x.tolist() == [[0, 1]]
    np.savez(path, x=np.array([[10, 12]], np.float32), y=[1])
    assert board(tmp_path, told, path=str(path)).train.x.tolist() == [[10, 12]]
    assert array_rows(SourceSpec(path=str(path))).tolist() == [[10, 12]]
    with pytest.raises(DataError, match=r"samples of \(2,\) for a model of \(3,\)"):
        board(tmp_path, KnownTask(input_shape=(3,), classes=2), path=str(path))
    survey = survey_samples(SourceSpec(path=str(path)), tmp_path, KnownTask(input_shape=(3,), classes=2))[0]
    assert "samples of (2,) for a model of (3,)" in survey.waiting


def test_what_a_loader_returns_is_normalised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = types.ModuleType("greenhouse")
    own.load = lambda path: (np.array([[10.0, 12.0], [9.0, 9.0]]), ["b", None])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "greenhouse", own)
    known = KnownTask(input_shape=(2,), classes=2, task=Task(class_names=("a", "b"), mean=(10.0,), std=(2.0,)))
    found = board(tmp_path, known, path=".", kind="python", loader="greenhouse:load")
    assert (found.train.x.tolist(), found.train.y.tolist(), found.survey.unlabeled) == ([[0, 1]], [1], 1)


def test_a_survey_of_what_cannot_be_read_waits(tmp_path: Path) -> None:
    survey = survey_samples(SourceSpec(path=str(tmp_path / "no"), kind="folder", min_samples=20), tmp_path, CATS)[0]
    assert survey.waiting == f"waiting for samples in {tmp_path}/no: 0 of 20; it is not there yet"
    assert not survey.ready
    broken = survey_samples(SourceSpec(path=".", kind="python", loader="no_module:load"), tmp_path, CATS)[0]
    assert "loader 'no_module:load' does not load" in broken.problem


def test_class_names_without_a_task_wait_for_it(tmp_path: Path) -> None:
    root = pictures(tmp_path / "p", 3)
    survey = survey_samples(SourceSpec(path=str(root), kind="folder"), tmp_path, None)[0]
    assert survey.waiting == "waiting for the fleet's task, which comes with the first model: 6 samples"
    assert (survey.counts, survey.label_counts) == ({"cat": 3, "dog": 3}, ())
