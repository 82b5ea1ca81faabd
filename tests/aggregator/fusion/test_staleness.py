"""Stale updates by hand."""

from __future__ import annotations

import pytest
import torch

from aggregator.fusion.staleness import discount, moved


def test_old_updates_count_less() -> None:
    assert [discount(tau) for tau in (0, 3, 8)] == [1.0, 0.5, pytest.approx(1 / 3)]
    assert [discount(tau, 1.0) for tau in (0, 1, 3)] == [1.0, 0.5, 0.25]
    assert discount(100, 0.0) == 1.0


def test_only_what_was_learned_is_added_to_the_newest_model() -> None:
    """w_t = 10, w_v = 1, w_k = 3: with s = 1/2 it is 10 + 1/2 (3 - 1)."""
    trained = {"w": torch.tensor([3.0]), "count": torch.tensor([7])}
    began = {"w": torch.tensor([1.0]), "count": torch.tensor([2]), "other": torch.zeros(1)}
    current = {"w": torch.tensor([10.0]), "count": torch.tensor([5]), "other": torch.ones(1)}
    found = moved(trained, began, current, 0.5)
    assert (found["w"].tolist(), found["count"].tolist(), set(found)) == ([11.0], [7], {"w", "count"})
    assert trained["w"].tolist() == [3.0]
