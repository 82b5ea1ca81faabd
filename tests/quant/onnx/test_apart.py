"""ONNX graphs of devices are read in a process of its own, within limits; whatever ends it refuses the graph alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from core.errors import ModelError, TensorError
from quant.onnx.apart import MAX_BYTES, Reader
from quant.onnx.weights import read_weights
from tests.quant.onnx.graphs import BIAS, WEIGHT, linear
from tests.transport.events import eventually
from wire.tensors import Limits

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parents[3]
GOOD = linear().SerializeToString()


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


def test_the_weights_are_those_that_are_read_here(reader: Reader) -> None:
    apart, here = reader.read(GOOD, Limits()), read_weights(GOOD)
    assert apart.keys() == here.keys() == {"fc.weight", "fc.bias"}
    np.testing.assert_array_equal(apart["fc.weight"], WEIGHT)
    np.testing.assert_array_equal(apart["fc.bias"], BIAS)


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ([1] * 70, "70 dimensions, at most 8"),
        ([2**31, 2**31, 0], "has shape"),
        ([-1, 3], "has shape"),
        ([2**62], "has shape"),
        ([0], "24 bytes, its shape needs 0"),
    ],
)
def test_hostile_dimensions_are_a_refusal_here_and_there(reader: Reader, dims: list[int], words: str) -> None:
    model = linear()
    model.graph.initializer[0].dims[:] = dims
    for read in (read_weights, lambda data: reader.read(data, Limits())):
        with pytest.raises(ModelError, match=words):
            read(model.SerializeToString())


def test_data_in_another_file_is_not_looked_for(reader: Reader, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(24))
    model = linear()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=str(secret))
    with pytest.raises(ModelError, match="in another file"):
        reader.read(model.SerializeToString(), Limits())


def test_what_exceeds_the_callers_limits_is_refused_by_them(reader: Reader) -> None:
    with pytest.raises(TensorError, match=r"over 3 values|absurd"):
        reader.read(GOOD, Limits(max_values=3))
    with pytest.raises(ModelError, match="at most"):
        reader.read(bytes(MAX_BYTES + 1), Limits())


def test_a_sandbox_that_was_killed_is_replaced(reader: Reader) -> None:
    reader.read(GOOD, Limits())
    first = reader.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert reader.read(GOOD, Limits()).keys() == {"fc.weight", "fc.bias"}
    assert reader.pid != first


def test_the_sandbox_ends_with_the_process_that_started_it() -> None:
    code = (
        "import os, signal, sys; from quant.onnx.apart import Reader; from wire.tensors import Limits; r = Reader();"
        "r.read(sys.stdin.buffer.read(), Limits()); print(r.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], input=GOOD, capture_output=True, env=env, check=False)
    pid = int(done.stdout)
    assert eventually(lambda: not _alive(pid)), f"process {pid} lives on"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
