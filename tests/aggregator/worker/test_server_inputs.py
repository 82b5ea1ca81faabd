"""Samples, teachers and device of the aggregator, from what the worker is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.config.fusion import FusionConfig
from aggregator.fusion.types import Server
from aggregator.worker.server_inputs import Labelled, load_labelled, make_server
from core.errors import DataError
from models.spec import PrototypeSpec, parse_prototype

SPEC = PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 4, 4), 3, 8)


def brought(test: Labelled | None = None, **facts: object) -> Server:
    told: Mapping[str, Any] = {**FusionConfig().to_json(), "device": "cpu", **facts}
    return make_server(told, SPEC, 3, test)


def labelled(path: Path, count: int) -> str:
    np.savez(path, x=np.zeros((count, 1, 4, 4), np.float32), y=np.arange(count))
    return str(path)


def test_without_a_source_there_are_no_samples() -> None:
    server = brought(source="none")
    assert (server.source, server.validation, server.test, server.seed, server.teachers) == (None, None, None, 3, [])


def test_a_source_is_cut_to_its_size_by_the_seed(tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", x=np.arange(160, dtype=np.float32).reshape(10, 1, 4, 4))
    server = brought(source=str(tmp_path / "pool.npz"), source_size=3)
    assert server.source is not None
    assert tuple(server.source.shape) == (3, 1, 4, 4)


def test_labelled_samples_that_have_a_say_are_those_of_the_task_unless_told(tmp_path: Path) -> None:
    task, own = load_labelled(labelled(tmp_path / "task.npz", 2), (1, 4, 4), 3), labelled(tmp_path / "own.npz", 3)
    for said, count in (("task", 2), (own, 3), ("none", None)):
        server = brought(task, validation=said)
        assert (None if server.validation is None else len(server.validation[1])) == count
        assert server.test is task


def test_teachers_are_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"graph")
    assert brought(teachers=[str(tmp_path / "a.onnx")]).teachers == [b"graph"]
    with pytest.raises(DataError, match=r"none\.onnx: No such file or directory; 'teachers' are ONNX files"):
        brought(teachers=[str(tmp_path / "none.onnx")])
