"""Weights of the generated terms, round by round."""

import pytest

from core.errors import ConfigError
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE, Guidance


def test_the_paper_has_one_term_of_weight_1_for_ever() -> None:
    assert PAPER.weights(1) == PAPER.weights(200) == (1.0, 0.0)


def test_the_authors_weights_start_at_10_and_decay_to_0_18_in_200_rounds() -> None:
    assert REFERENCE.weights(1) == (10.0, 10.0)
    assert REFERENCE.weights(3) == pytest.approx((10 * 0.98**2, 10 * 0.98**2))
    assert REFERENCE.weights(200) == pytest.approx((0.1795, 0.1795), abs=1e-4)


def test_weights_do_not_fall_below_the_floor_and_zero_stays_zero() -> None:
    assert REFERENCE.weights(2000) == (1e-4, 1e-4)
    assert Guidance(weight=0.0, kl=1.0, decay=0.5, floor=0.1).weights(9) == (0.0, 0.1)


@pytest.mark.parametrize("how", [PAPER, REFERENCE, Guidance(batch=8, kl=1.5, steps=3)])
def test_a_job_carries_it_as_numbers(how: Guidance) -> None:
    extra = how.to_extra()
    assert all(isinstance(value, float) for value in extra.values())
    assert Guidance.from_extra({**extra, "prox": 0.1}) == how


def test_what_a_job_does_not_say_is_the_papers() -> None:
    assert Guidance.from_extra({}) == PAPER


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"generated_batch": 1.5}, "generated_batch is 1.5"),
        ({"generated_weight": -1.0}, "not negative"),
        ({"generated_decay": 0.0}, "decay is above 0"),
    ],
)
def test_nonsense_is_refused(extra: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Guidance.from_extra(extra)
