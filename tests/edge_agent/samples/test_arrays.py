"""Samples that come as arrays."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from edge_agent.samples.arrays import array_source, labels_alone, stored_shape
from edge_agent.samples.spec import SourceSpec

pytestmark = pytest.mark.light


def test_rows_of_a_file_have_the_hash_of_their_bytes(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.uint8).reshape(3, 2)
    np.savez(tmp_path / "a.npz", x=x, y=[0, 1, 1], mean=[1.0], std=[2.0])
    found = array_source(SourceSpec(path=str(tmp_path / "a.npz")), 10**6)
    before = found.listing().entries
    assert [(entry.label, entry.place) for entry in before] == [(0, 0), (1, 1), (1, 2)]
    assert (found.mean, found.std) == ([1.0], [2.0])
    np.savez(tmp_path / "a.npz", x=np.vstack([x[::-1], x[:1]]), y=[1, 1, 0, 1])
    after = array_source(SourceSpec(path=str(tmp_path / "a.npz")), 10**6).listing().entries
    assert [entry.digest for entry in after] == [before[i].digest for i in (2, 1, 0, 0)]
    with pytest.raises(DataError, match="the limit is 10"):
        array_source(SourceSpec(path=str(tmp_path / "a.npz")), 10)


def test_labels_are_counted_without_reading_the_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=[0, 2, 2])
    spec = SourceSpec(path=str(tmp_path / "a.npz"))
    assert [entry.label for entry in labels_alone(spec).entries] == [0, 2, 2]
    assert stored_shape(spec) == (0,)  # it has no x
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 1, 4)), y=[0, 2, 2])
    assert stored_shape(spec) == (3, 1, 4)


def test_a_loader_gives_names_too(monkeypatch: pytest.MonkeyPatch) -> None:
    own = types.ModuleType("greenhouse")
    own.load = lambda path: (np.ones((2, 3)), ["wet", None])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "greenhouse", own)
    found = array_source(SourceSpec(path=".", kind="python", loader="greenhouse:load"), 10**6)
    assert [entry.label for entry in found.listing().entries] == ["wet", None]
