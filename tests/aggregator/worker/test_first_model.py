"""The first model is the same wherever it is made: by the aggregator, and as a graph for kits."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from aggregator.worker.first_model import first_graph, first_model, wire_floats
from aggregator.worker.fuse_round import Fuser
from core.processes.python_child import module_arguments
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.weights import read_weights
from wire.keys import generate_key
from wire.tensors import decode

SPEC = PrototypeSpec(*parse_prototype("cnn:fp32"), (1, 8, 8), 3, 8)


def test_seed_and_prototype_decide() -> None:
    states = [first_model(SPEC, seed)[1] for seed in (0, 0, 1)]
    name = next(iter(states[0]))
    assert states[0][name].equal(states[1][name])
    assert not states[0][name].equal(states[2][name])
    assert (wire_floats(SPEC), wire_floats(PrototypeSpec(*parse_prototype("cnn:w1"), (1, 8, 8), 3, 8))) == (
        "fp32",
        "fp16",
    )


def test_the_graph_has_the_weights_that_the_aggregator_publishes(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest, _ = Fuser(blobs, generate_key(), "garden").start(SPEC, 7)
    published = decode(open_artifact(blobs.read(digest))[1])
    held = read_weights(first_graph(SPEC, 7))
    shared = set(held) & set(published)
    assert {"predictor.weight", "predictor.bias"} <= shared
    for name in shared:
        np.testing.assert_array_equal(held[name], published[name])


@pytest.mark.parametrize(("prototype", "code"), [("mlp:w1", 0), ("nothing:w1", 1)])
def test_it_is_a_program(prototype: str, code: int) -> None:
    asked = {"prototype": prototype, "input_shape": [1, 8, 8], "classes": 3, "latent": 8, "seed": 7}
    command = [sys.executable, *module_arguments("aggregator.worker.first_model")]
    done = subprocess.run(command, input=json.dumps(asked).encode(), capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    if code:
        assert b"nothing" in done.stderr.splitlines()[-1]
    else:
        spec = PrototypeSpec(*parse_prototype(prototype), (1, 8, 8), 3, 8)
        assert io.BytesIO(done.stdout).read() == first_graph(spec, 7)
