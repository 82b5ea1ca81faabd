"""A device's samples: what is read, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from edge_agent.training.samples import main, split
from models.samples import count_labels, load_labels, load_samples

pytestmark = pytest.mark.light


def write(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def test_labels_are_counted_without_reading_the_inputs(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write(tmp_path / "s.npz", x=np.zeros((4, 1), np.float32), y=[0, 2, 2, 2])
    assert count_labels(load_labels(path)) == (1, 0, 3)
    assert main(str(path)) == 0
    assert json.loads(capsys.readouterr().out) == [1, 0, 3]
    assert main(str(tmp_path / "absent.npz")) == DataError.exit_code
    assert "No such file" in capsys.readouterr().out


def test_the_same_samples_are_held_out_every_time(tmp_path: Path) -> None:
    x = np.arange(10, dtype=np.float32).reshape(10, 1)
    samples = load_samples(write(tmp_path / "s.npz", x=x, y=np.arange(10)))
    train, held = split(samples, 0.2)
    assert held is not None
    assert (len(train), len(held)) == (8, 2)
    assert sorted([*train.y, *held.y]) == list(range(10))
    assert train.y.tolist() == sorted(train.y.tolist())  # the stored order
    assert split(samples, 0.2)[1].y.tolist() == held.y.tolist()


def test_without_a_fraction_nothing_is_held_out_and_the_order_is_the_files(tmp_path: Path) -> None:
    samples = load_samples(write(tmp_path / "s.npz", x=np.zeros((3, 1), np.float32), y=[2, 0, 1]))
    train, held = split(samples, 0.0)
    assert held is None
    assert train.y.tolist() == [2, 0, 1]


def test_too_few_samples_to_hold_any_out(tmp_path: Path) -> None:
    samples = load_samples(write(tmp_path / "s.npz", x=np.zeros((1, 1), np.float32), y=[0]))
    with pytest.raises(DataError, match="too few"):
        split(samples, 0.9)
