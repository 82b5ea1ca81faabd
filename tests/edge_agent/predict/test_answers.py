"""Requests as bytes, and their answers."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from edge_agent.predict.answers import answer_request, model_facts
from edge_agent.predict.model import Model
from tests.edge_agent.predict.boards import images, leave_model

pytestmark = pytest.mark.light


@pytest.fixture
def model(tmp_path: Path) -> Model:
    leave_model(tmp_path)
    return Model(tmp_path)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_arrays_and_json_are_answered_alike(model: Model) -> None:
    answer = answer_request(model, npy(images(4)))
    assert [row["label"] for row in answer["predictions"]] == ["ant", "bee", "cat", "ant"]
    assert answer["predictions"][1]["class"] == 1
    assert answer["predictions"][1]["probability"] == answer["probabilities"][1][1] > 0.5
    assert (answer["round"], answer["prototype"]) == (1, "tiny:fp32")
    asked = json.dumps({"inputs": images(4).tolist(), "id": "q7"}).encode()
    assert answer_request(model, asked) == {"id": "q7", **answer}
    json.dumps(answer)  # plain numbers
    assert model_facts(model)["model"] == answer["model"] == model.card.sha256


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the request is empty"),
        (b"{", "not JSON"),
        (b'{"x": 1}', "has no inputs"),
        (b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON|different shapes|shape"),
        (b'{"inputs": [1, "a"]}', "not numbers"),
        (b'{"inputs": {"a": 1}}', "not numbers"),
        (b'{"inputs": [NaN]}', "shape"),
        (b"garbage", "not an .npy file, and not a readable picture"),
        (npy(np.zeros((2, 3, 4, 3), np.uint8)), "resize"),
        (npy(np.zeros((5, 3, 4, 2), np.uint8)), "5 inputs in one request, the limit is 4"),
        (json.dumps({"inputs": np.zeros((5, 3, 4, 2), int).tolist()}).encode(), "the limit is 4"),
    ],
)
def test_a_request_that_cannot_be_answered_is_told_why(model: Model, body: bytes, told: str) -> None:
    with pytest.raises(DataError, match=told):
        answer_request(model, body, most=4)
