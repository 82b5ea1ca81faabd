"""Mini-batches, where the model is; on a device that refuses CPU tensors: tests/accelerated/masks.py."""

from __future__ import annotations

import pytest
import torch

from edge_agent.training import batches
from edge_agent.training.batches import Samples

CPU, META = torch.device("cpu"), torch.device("meta")
X, Y, CHOSEN = torch.arange(12.0).view(6, 2), torch.arange(6), torch.tensor([4, 1])


def test_on_the_cpu_samples_are_not_copied() -> None:
    samples = Samples(X, Y, CPU)
    assert samples._x is X
    x, y = samples.take(CHOSEN)
    assert torch.equal(x, X[CHOSEN])
    assert torch.equal(y, Y[CHOSEN])
    assert samples.zero().dtype == torch.float64


@pytest.mark.parametrize(("resident", "there"), [(X.nbytes, META), (X.nbytes - 1, CPU)])
def test_small_sets_lie_on_the_device_and_large_ones_are_moved_by_mini_batch(
    resident: int, there: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "RESIDENT", resident)
    samples = Samples(X, Y, META)
    assert samples._x.device == there
    x, y = samples.take(CHOSEN)
    assert (x.device, y.device, x.shape, y.shape) == (META, META, (2, 2), (2,))
