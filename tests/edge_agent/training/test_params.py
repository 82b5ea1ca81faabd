"""Settings of local training."""

import pytest

from core.errors import ConfigError
from edge_agent.training.params import DEFAULTS, LocalTraining, local_training

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epochs": None}, "either epochs or steps"),
        ({"steps": 3}, "either epochs or steps"),
        ({"epochs": 0}, "at least 1"),
        ({"batch_size": 0}, "batch size 0"),
        ({"lr": -1.0}, "learning rate -1; give at least"),
        ({"lr": float("nan")}, "learning rate nan"),
        ({"momentum": 1.0}, "momentum 1.0"),
        ({"prox": -0.1}, "prox -0.1; give at least 0"),
        ({"clip": -1.0}, "clip -1; give at least 1e-06"),
        ({"clip": float("nan")}, "clip nan"),
        ({"least_steps": -1}, "least steps -1"),
        ({"least_steps": 9, "most_steps": 8}, "least_steps 9 is more than most_steps 8"),
        ({"epochs": None, "steps": 3, "most_steps": 8}, "go with epochs"),
    ],
)
def test_a_bad_setting_is_named(change: dict, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        LocalTraining(**{"lr": 0.1, "batch_size": 8, "epochs": 1, **change})


def test_nothing_is_clipped_or_bounded_unless_it_is_said() -> None:
    how = LocalTraining(lr=0.1, batch_size=8, epochs=1)
    assert (how.clip, how.least_steps, how.most_steps) == (0.0, 0, 0)


def test_the_defaults_clip_and_bound() -> None:
    assert DEFAULTS.clip > 0
    assert 0 < DEFAULTS.least_steps < DEFAULTS.most_steps


def test_what_is_given_is_kept_to_exactly() -> None:
    assert local_training() == local_training(lr=None, epochs=None) == DEFAULTS
    exact = local_training(epochs=5, lr=0.7)
    assert (exact.epochs, exact.lr, exact.least_steps, exact.most_steps) == (5, 0.7, 0, 0)
    assert exact.clip == DEFAULTS.clip
    steps = local_training(steps=3)
    assert (steps.epochs, steps.steps, steps.least_steps) == (None, 3, 0)
