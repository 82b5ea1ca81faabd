"""Norms of gradients that are never formed, against those of gradients that are."""

import pytest
import torch

from edge_agent.training.clipping import Norms, _gram_pays


@pytest.mark.parametrize("rows", [1, 4, 40])
def test_norms_are_those_of_the_gradients(rows: int) -> None:
    generator = torch.Generator().manual_seed(1)
    layers = [(30, 20, True), (20, 3, False)]
    gs = [torch.randn(5, rows, outputs, generator=generator) for _, outputs, _ in layers]
    inputs = [torch.randn(5, rows, width, generator=generator) for width, _, _ in layers]
    norms = Norms(layers, rows, lambda m, n: torch.empty(5, m, n), lambda a, b, out: out.copy_(a @ b))
    wanted = sum((g.transpose(1, 2) @ a).square().sum((1, 2)) for g, a in zip(gs, inputs, strict=True))
    wanted = wanted + gs[0].sum(1).square().sum(1)
    for _ in range(2):  # nothing is left over from the first time
        torch.testing.assert_close(norms.of(gs, inputs), wanted)


def test_small_matrices_pay_for_small_mini_batches() -> None:
    assert _gram_pays(32, 784, 200)
    assert not _gram_pays(32, 32, 10)
    assert not _gram_pays(512, 784, 200)
