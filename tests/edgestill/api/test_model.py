"""A trained model: predictions as on a board, the ONNX file, the digest."""

from pathlib import Path

import numpy as np
import pytest
import torch

import edgestill as es
from edgestill.device import Model
from fleet.data import Dataset, load
from fleet.data.npz import npz_file


@pytest.fixture(scope="module")
def bytes_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as bytes, which need a normalization."""
    digits = load("digits")
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    x = {part: ((getattr(digits, part) + 1) * 127.5).round().astype(np.uint8) for part in ("x_train", "x_test")}
    np.savez(path, y_train=digits.y_train, y_test=digits.y_test, **x)
    return path


@pytest.fixture(scope="module")
def trained(bytes_dataset: Path) -> tuple[es.TrainedModel, Dataset]:
    run = es.simulate(dataset=str(bytes_dataset), devices=2, prototypes="cnn:w1", rounds=2, quiet=True)
    return run.model(), npz_file(bytes_dataset)


def test_predictions_have_the_accuracy_of_the_run(trained: tuple[es.TrainedModel, Dataset]) -> None:
    model, data = trained
    answer = model.predict(data.x_test)
    assert (answer.classes == data.y_test).mean() == pytest.approx(model.accuracy, abs=0.004)
    assert answer.labels[0] == model.classes[answer.classes[0]]
    assert model.predict(torch.from_numpy(data.x_test[0].copy())).probabilities.shape == (1, 10)


def test_the_onnx_file_answers_the_same_on_a_board(trained: tuple[es.TrainedModel, Dataset], tmp_path: Path) -> None:
    model, data = trained
    board = Model(model.to_onnx(tmp_path / "m.onnx"))
    x = data.x_test[:50]
    assert np.abs(board.predict(x).probabilities - model.predict(x).probabilities).max() < 1e-4
    assert (board.card.prototype, board.card.round, board.card.input.inside) == ("cnn:w1", 2, True)
    plain = Model(model.to_onnx(tmp_path / "plain.onnx", raw_input=False))
    assert plain.card.output == "logits"
    assert np.abs(plain.predict(x).probabilities - model.predict(x).probabilities).max() < 1e-4


def test_wrong_inputs_are_refused_in_one_line(trained: tuple[es.TrainedModel, Dataset]) -> None:
    with pytest.raises(es.EdgestillError, match=r"this model takes .1, 8, 8. per sample"):
        trained[0].predict(np.zeros((3, 1, 9, 9), np.uint8))


def test_it_says_what_it_is(trained: tuple[es.TrainedModel, Dataset]) -> None:
    assert repr(trained[0]).startswith("<TrainedModel cnn:w1, round 2, accuracy ")
    assert isinstance(trained[0].torch, torch.nn.Module)
