"""The two forms of generator training, as values."""

from typing import Any

import pytest

from aggregator.recipes.generator import PAPER, REFERENCE, Generation
from core.errors import ConfigError


def test_the_reference_form_is_that_of_the_authors_code() -> None:
    assert (REFERENCE.steps, REFERENCE.batch_size, REFERENCE.lr, REFERENCE.weight_decay) == (50, 32, 3e-4, 1e-2)
    assert (REFERENCE.loss, REFERENCE.noise, REFERENCE.labels) == ("per-teacher", "reference", "uniform")


def test_the_paper_form_is_equation_4_with_gaussian_noise() -> None:
    assert (PAPER.loss, PAPER.noise, PAPER.labels, PAPER.weight_decay) == ("mean-logits", "paper", "counts", 0.0)


def test_the_learning_rate_decays_by_round_and_starts_undecayed() -> None:
    assert REFERENCE.lr_at(1) == 3e-4
    assert REFERENCE.lr_at(3) == pytest.approx(3e-4 * 0.98**2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": "mean"}, "unknown loss 'mean'"),
        ({"noise": "gauss"}, "unknown noise"),
        ({"labels": "all"}, "unknown labels"),
        ({"batch_size": 1}, "batch_size at least 2"),
        ({"lr": 0.0}, "lr 0.0 must be positive"),
        ({"lr_decay": 1.1}, "lr_decay 1.1"),
        ({"diversity": -1.0}, "cannot be negative"),
    ],
)
def test_nonsense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Generation(**given)
