"""The process that predicts for the agent, over its pipes."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from core.processes.process import end, send, start_python
from core.processes.python_child import module_arguments
from edge_agent.predict.frames import LENGTH, frame
from edge_agent.predict.model import Model
from edge_agent.predict.worker import answered
from tests.edge_agent.predict.boards import SHAPE, images, leave_model
from tests.edge_agent.predict.http_calls import npy

pytestmark = pytest.mark.light


def test_requests_are_answered_in_turn_and_the_model_is_reloaded(tmp_path: Path) -> None:
    command = module_arguments("edge_agent.predict.worker", str(tmp_path), str(os.getpid()))
    child = start_python(command, stderr=subprocess.PIPE)
    try:

        def ask(request: bytes) -> dict:
            send(child, frame(request))
            size = LENGTH.unpack(child.stdout.read(4))[0]
            return json.loads(child.stdout.read(size))

        request = npy(images(2))
        identity = hashlib.sha256(request).hexdigest()[:16]
        first = ask(request)
        assert (first["request"], "there is no model yet" in first["error"]) == (identity, True)
        leave_model(tmp_path)
        answer = ask(request)
        assert (answer["request"], answer["predictions"][1]["label"]) == (identity, "bee")
        leave_model(tmp_path, round=4)
        assert ask(request)["round"] == 4
        assert "not an .npy file" in ask(b"hello")["error"]
        child.stdin.close()
        assert child.wait(120) == 0
    finally:
        end(child)


def test_an_answer_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_model(tmp_path)
    model, request = Model(tmp_path), npy(np.zeros((20, *SHAPE), np.uint8))
    monkeypatch.setattr("edge_agent.predict.worker.MAX_ANSWER", 1500)
    answer = json.loads(answered(model, request))
    assert "probabilities" not in answer
    assert len(answer["predictions"]) == 20
    monkeypatch.setattr("edge_agent.predict.worker.MAX_ANSWER", 200)
    assert "fewer inputs" in json.loads(answered(model, request))["error"]
