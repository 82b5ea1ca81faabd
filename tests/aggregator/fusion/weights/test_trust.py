"""Trust from scores, by hand."""

import pytest
import torch

from aggregator.fusion.types import Memory, Received, Server, View
from aggregator.fusion.weights.trust import trust_of, trusted_examples
from tests.aggregator.fusion.views import SPEC

Z = torch.tensor([[1.0], [-1.0]])


def update(device: str, slope: float, examples: int = 10) -> Received:
    state = {"predictor.weight": torch.tensor([[slope]]), "predictor.bias": torch.zeros(1)}
    return Received(device=device, num_examples=examples, state=lambda: state)


UPDATES = [update("a", 1.0), update("b", 2.0), update("c", 30.0)]


def test_trust_is_the_score_relative_to_the_prototypes_mean() -> None:
    trust, scores = trust_of(UPDATES, {"a": 0.3, "b": 0.1, "c": 0.2, "of another prototype": 0.4}, Z)
    assert trust == pytest.approx({"a": 1.5, "b": 0.5, "c": 1.0})
    assert scores == {"a": 0.3, "b": 0.1, "c": 0.2}


def test_without_scores_predictors_are_asked_about_latents() -> None:
    """Logits 1, 2, 30 and -1, -2, -30: b is always the median."""
    trust, scores = trust_of(UPDATES, {}, Z)
    assert scores == {"a": 0.0, "b": 1.0, "c": 0.0}
    assert trust == {"a": 0.0, "b": 3.0, "c": 0.0}


def test_a_predictor_that_came_alone_is_compared_with_those_of_whole_models() -> None:
    trust, scores = trust_of(UPDATES, {"a": 0.5, "b": 0.5}, Z)
    assert (trust["a"], trust["b"], trust["c"]) == (1.0, 1.0, 0.0)
    assert scores["c"] == 0.0


def test_where_nobody_is_ever_the_median_all_are_trusted() -> None:
    assert trust_of(UPDATES, dict.fromkeys("abc", 0.0), Z)[0] == {"a": 1.0, "b": 1.0, "c": 1.0}


def test_weights_are_trust_times_examples() -> None:
    view = View(
        spec=SPEC,
        round_number=1,
        previous={},
        updates=[update("a", 1.0, 4), update("b", 1.0, 6), update("c", 1.0, 8)],
        memory=Memory(),
        options={},
        server=Server(),
        trust={"a": 0.5, "b": 0.0},
    )
    assert list(trusted_examples(view)) == [2.0, 0.0, 8.0]
