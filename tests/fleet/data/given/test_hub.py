"""Hugging Face's datasets by name: its loader is replaced, because it needs the network."""

from types import SimpleNamespace

import numpy as np
import pytest

from core.errors import ConfigError, DataError
from fleet.data import load
from fleet.data.given import hub


def test_a_name_is_loaded_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"features": np.random.default_rng(0).standard_normal((60, 4)).tolist(), "label": [0, 1, 2] * 20}
    asked: list[tuple[str, ...]] = []

    def load_dataset(*name: str) -> object:
        asked.append(name)
        return datasets.DatasetDict(train=datasets.Dataset.from_dict(rows))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    made = load("hf:owner/data/config")
    assert asked == [("owner/data", "config")]
    assert (made.kind, made.classes, len(made.y_train) + len(made.y_test)) == ("features", 3, 60)


def test_what_cannot_be_loaded_and_what_is_missing_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> None:
        raise ConnectionError("no\nroute")

    monkeypatch.setattr(hub, "_library", lambda: SimpleNamespace(load_dataset=fail))
    with pytest.raises(DataError, match=r"hf:a/b: cannot be loaded \(ConnectionError: no route\); check name"):
        load("hf:a/b")
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'edgestill\[hf\]'"):
        load("hf:a/b")
