"""Settings of local training."""

import pytest

from edge_agent.hyper import LocalTraining
from wire.errors import ConfigError

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
    ],
)
def test_a_bad_setting_is_named(change: dict, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        LocalTraining(**{"lr": 0.1, "batch_size": 8, "epochs": 1, **change})
