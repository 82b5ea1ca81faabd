"""The model for the application: three files that belong together, or none where the board's own is better."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from edge_agent.child.current_model import write_current
from edge_agent.child.inputs import Assignment, open_assignment
from edge_agent.state.store import CURRENT
from tests.edge_agent.devices import Device

TENSORS = {"predictor.bias": np.array([1.0, 2.0], np.float32)}


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def assignment(device: Device, *, job: bool = True, **other: object) -> Assignment:
    return open_assignment(device.request(device.job(3) if job else None, **other))


def test_graph_tensors_and_a_word_about_them_are_written(device: Device) -> None:
    work = assignment(device)
    assert write_current(work, b"graph", TENSORS, {"accuracy": 0.75, "train_loss": 0.1}) == {}
    graph, tensors, about = (work.folder / name for name in CURRENT)
    assert graph.read_bytes() == b"graph"
    assert safetensors.numpy.load_file(tensors)["predictor.bias"].tolist() == [1.0, 2.0]
    assert json.loads(about.read_text()) == {
        "prototype": "mlp:fp32",
        "round": 3,
        "base": device.digest,
        "trained_here": True,
        "accuracy": 0.75,
    }


def test_a_model_that_was_only_taken_has_the_round_of_its_header(device: Device) -> None:
    work = assignment(device, job=False)
    write_current(work, b"graph", TENSORS, {})
    about = json.loads((work.folder / CURRENT[2]).read_text())
    assert (about["round"], about["trained_here"], about["accuracy"]) == (0, False, None)


@pytest.mark.parametrize(
    ("refuse_worse", "accuracy", "before", "refused"),
    [(True, 0.4, 0.5, True), (True, 0.5, 0.5, False), (True, 0.6, 0.5, False), (False, 0.4, 0.5, False)],
)
def test_a_worse_model_is_refused_where_that_is_asked_for(
    device: Device, refuse_worse: bool, accuracy: float, before: float, refused: bool
) -> None:
    work = assignment(device, refuse_worse=refuse_worse)
    answer = write_current(work, b"graph", TENSORS, {"accuracy": accuracy, "accuracy_before": before})
    assert answer == ({"refused": 1.0} if refused else {})
    assert (work.folder / CURRENT[0]).exists() is not refused
