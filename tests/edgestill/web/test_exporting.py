"""Models as downloads: for operators, whole, and with a name that is a file's."""

from __future__ import annotations

from contextlib import closing

import pytest
from fastapi.testclient import TestClient

from aggregator.config.fleet import FleetConfig
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from edgestill.web import exporting
from tests.aggregator.journals import a_model
from tests.edge_agent.scripted import make_artifact


@pytest.fixture
def digest(config: FleetConfig) -> str:
    digest, sealed = make_artifact()
    Blobs(config.state / "blobs").put(sealed)
    with closing(Journal(config.state / "journal.db")) as journal, journal.transaction():
        journal.add_model(a_model("real", "mlp:w1", 3, digest=digest, size=len(sealed)))
    return digest


def test_an_operator_downloads_a_model(operator: TestClient, digest: str, config: FleetConfig) -> None:
    answer = operator.get(f"/models/{digest}.safetensors")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
    assert answer.headers["content-disposition"] == 'attachment; filename="mlp-w1-round-3.safetensors"'
    assert b"predictor" in answer.content
    assert f"/models/{digest}.onnx" in operator.get("/models").text
    assert "export" in operator.get("/audit").text


def test_others_are_sent_to_the_login(browser: TestClient, digest: str) -> None:
    answer = browser.get(f"/models/{digest}.onnx")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?to=%2Fmodels%2F{digest}.onnx")


@pytest.mark.parametrize("path", ["ab.onnx", "../secret.onnx", f"{'0' * 64}.exe", f"{'g' * 64}.onnx"])
def test_what_is_no_model_is_not_there(operator: TestClient, path: str) -> None:
    assert operator.get(f"/models/{path}").status_code == 404


def test_a_model_that_cannot_be_exported_is_a_line_and_is_audited(operator: TestClient) -> None:
    answer = operator.get(f"/models/{'0' * 64}.onnx")
    assert answer.status_code == 503
    assert "Traceback" not in answer.text
    assert "no model" in answer.text
    assert "no model" in operator.get("/audit").text


def test_one_at_a_time(operator: TestClient, digest: str) -> None:
    with exporting._one:
        answer = operator.get(f"/models/{digest}.safetensors")
    assert (answer.status_code, "another model is being exported" in answer.text) == (503, True)
