"""Running a graph and comparing answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.errors import ModelError
from quant.onnx.session import max_difference, open_session, run_all, run_graph
from tests.quant.onnx.graphs import linear

pytestmark = pytest.mark.light

X = np.array([[1, 0, 0]], np.float32)


def test_a_graph_is_run_from_bytes_and_from_a_file(tmp_path: Path):
    data = linear().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    for source in (data, tmp_path / "m.onnx"):
        assert run_graph(open_session(source), X).tolist() == [[1.5, 3.5]]
    assert run_graph(open_session(data), {"x": X}).tolist() == [[1.5, 3.5]]
    assert len(run_all(open_session(data), X)) == 1


def test_what_does_not_load_or_run_is_one_line():
    with pytest.raises(ModelError, match="does not load the graph") as caught:
        open_session(b"garbage")
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="does not run the graph"):
        run_graph(open_session(linear().SerializeToString()), np.zeros((1, 4), np.float32))


def test_the_difference_is_the_largest_and_infinite_where_there_is_none():
    a = np.array([1, 2], np.float32)
    assert max_difference(a, a + np.float32([0, 0.5])) == 0.5
    assert max_difference(a, a[:1]) == np.inf
    assert max_difference(a, np.float32([1, np.nan])) == np.inf
    assert max_difference(a[:0], a[:0]) == 0
