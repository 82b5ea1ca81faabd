"""The one rule of how devices train where nobody says otherwise."""

import pytest

from core import local_defaults
from core.errors import ConfigError
from core.local_defaults import auto_lr, lr_or_auto, with_defaults

pytestmark = pytest.mark.light


def test_the_learning_rate_follows_from_batch_size_and_momentum() -> None:
    base = local_defaults.BASE_LR
    assert auto_lr(32, 0.0) == pytest.approx(base)
    assert auto_lr(32, 0.9) == pytest.approx(base / 10)
    assert auto_lr(8, 0.0) == pytest.approx(base / 2)
    assert auto_lr(128, 0.5) == pytest.approx(base)
    assert repr(auto_lr(32, 0.9)) == f"{base / 10:.4g}"  # and not 0.004999999999999999


@pytest.mark.parametrize(("change", "word"), [({"momentum": 1.5}, "momentum 1.5"), ({"batch_size": 0}, "batch size 0")])
def test_no_learning_rate_follows_from_nonsense(change: dict, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        with_defaults(**change)


@pytest.mark.parametrize("value", ["fast", 0, -1.0, float("nan"), 5000, True, None, [1], 10**400])
def test_a_learning_rate_is_a_number_within_bounds_or_auto(value: object) -> None:
    with pytest.raises(ValueError, match=r"give a number above 0 and at most 1000, such as 0.03, or auto"):
        lr_or_auto(value)


def test_none_is_not_given() -> None:
    assert with_defaults(lr=None, prox=None) == with_defaults()
    assert with_defaults(clip=0.0)["clip"] == 0.0
