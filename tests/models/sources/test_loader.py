"""A loader of the user."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import ConfigError, DataError
from models.sources.loader import find_loader, load_own

pytestmark = pytest.mark.light


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    def install(load: Any) -> None:
        own = types.ModuleType("greenhouse")
        own.load = load  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "greenhouse", own)

    return install


def test_it_gets_the_path_and_returns_inputs_and_labels(module: Callable[[Any], None]) -> None:
    module(lambda path: ([[1, 2], [3, 4]], [path.name, None]))
    x, labels = load_own("greenhouse:load", Path("/data/here"), 1000)
    assert (x.dtype, x.tolist(), labels) == (np.int64, [[1, 2], [3, 4]], ["here", None])
    module(lambda path: (np.ones((2, 3)), np.array([0, 5])))
    x, labels = load_own("greenhouse:load", Path("."), 1000)
    assert (x.dtype, labels) == (np.float32, [0, 5])
    module(lambda path: (np.ones((1, 3), np.uint8), ["a"]))
    assert load_own("greenhouse:load", Path("."), 1000)[0].dtype == np.uint8


def broken(path: Path) -> None:
    raise RuntimeError("no sensor")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (broken, r"loader 'greenhouse:load' failed \(RuntimeError: no sensor\)"),
        (lambda path: 3, "returned int; return the pair x, y"),
        (lambda path: ([[1], [2, 3]], [0, 1]), "return arrays x, y"),
        (lambda path: ([1, 2], [0, 1]), "give one input"),
        (lambda path: (np.zeros((2, 2)), [0]), "for 1 labels"),
        (lambda path: ([["a"]], [0]), "give one input"),
        (lambda path: (np.zeros((1, 1)), [-1]), "a label is '-1'; a label is a class name, a whole number from 0"),
        (lambda path: (np.zeros((1, 1)), [0.5]), "a label is '0.5'"),
        (lambda path: (np.zeros((200, 2)), [0] * 200), "the limit is 1,000"),
        ("text", "is not a function"),
    ],
)
def test_what_it_does_wrong_is_one_line(module: Callable[[Any], None], load: Any, message: str) -> None:
    module(load)
    with pytest.raises(DataError, match=message):
        load_own("greenhouse:load", Path("."), 1000)


def test_a_loader_that_is_not_installed_is_told() -> None:
    with pytest.raises(ConfigError, match="does not load"):
        find_loader("no_such_module:load")
    with pytest.raises(ConfigError, match=r"no entry point edgestill.data is called so.*; or write module:function"):
        find_loader("unknown")
