"""The digits of the demo."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from fleet.data import load

ROOT = Path(__file__).resolve().parents[3]


def test_digits_have_a_stratified_test_part() -> None:
    data = load("digits")
    assert (data.x_train.shape, data.x_test.shape) == ((1438, 1, 8, 8), (359, 1, 8, 8))
    assert np.bincount(data.y_test).tolist() == [36, 36, 35, 37, 36, 36, 36, 36, 35, 36]


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    data = load("digits")
    ours = np.concatenate([data.x_train, data.x_test]).reshape(-1, 64)
    our_labels = np.concatenate([data.y_train, data.y_test])
    theirs = {(row.astype(np.uint8).tobytes(), int(label)) for row, label in zip(images, labels, strict=True)}
    assert {(row.tobytes(), int(label)) for row, label in zip(ours, our_labels, strict=True)} == theirs


def test_inputs_lie_between_minus_one_and_one() -> None:
    data = load("digits")
    x = data.inputs(data.x_train)
    assert (x.min(), x.max()) == (-1.0, 1.0)


def test_loading_digits_does_not_import_scikit_learn() -> None:
    code = (
        "import sys; from fleet.data import load; load('digits'); "
        "print('sklearn' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "False"]
