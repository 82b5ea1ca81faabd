"""A user's own partition."""

from typing import Any

import numpy as np
import pytest

from core import own_code
from core.errors import ConfigError
from fleet.partition import partition, uses_alpha

LABELS = np.arange(20) % 4


def halves(labels: Any, devices: int) -> Any:
    return np.array_split(np.arange(len(labels)), devices)


def drawn(labels: Any, devices: int, alpha: float, seed: int, most: int = 3) -> list[list[int]]:
    order = np.random.default_rng([seed, int(alpha)]).permutation(len(labels))
    return [order[i::devices][:most].tolist() for i in range(devices)]


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "_lent", {})


def split(function: Any, **options: Any) -> list[list[int]]:
    own_code.lend("partition", "mine", function)
    return [part.tolist() for part in partition("mine", LABELS, devices=4, alpha=2.0, seed=1, **options)]


def test_it_gets_what_it_takes() -> None:
    assert split(halves) == [list(range(5 * n, 5 * n + 5)) for n in range(4)]
    assert not uses_alpha("mine")
    assert split(drawn) == drawn(LABELS, 4, 2.0, 1)
    assert uses_alpha("mine")
    assert split(drawn, most=2) == drawn(LABELS, 4, 2.0, 1, most=2)
    with pytest.raises(ConfigError, match="unknown option 'mostt'; it has most; did you mean"):
        split(drawn, mostt=2)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([[0]], "gave 1 parts for 4 devices"),
        ([[0], [1], [2], [20]], "rows from 0 to 20, there are 0 to 19"),
        ([[0], [1], [2], [2]], "a sample goes to two devices"),
        ([[0.5], [1], [2], [3]], "gave float64; return rows"),
        (3, "gave no list of rows"),
    ],
)
def test_what_it_returns_is_checked(result: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        split(lambda labels, devices: result)
    assert str(caught.value).startswith("partition mine: ")


def test_what_it_raises_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"partition mine failed \(ZeroDivisionError"):
        split(lambda labels, devices: 1 / 0)
