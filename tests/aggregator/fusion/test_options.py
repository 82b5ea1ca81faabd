"""Options of parts, and what is refused."""

import pytest

from aggregator.fusion.options import flag, real, whole
from core.errors import ConfigError
from tests.aggregator.fusion.views import points, view_of


def test_what_is_not_given_is_the_default() -> None:
    view = view_of(points([1]))
    assert (real(view, "xi", 2.0, low=0), whole(view, "f", 3, low=0), flag(view, "reference")) == (2.0, 3, False)


def test_what_is_given_counts() -> None:
    view = view_of(points([1]), xi=1, f=0, reference=True)
    assert (real(view, "xi", 2.0, low=0), whole(view, "f", 3, low=0), flag(view, "reference")) == (1.0, 0, True)


@pytest.mark.parametrize("value", [-1, "2", True, float("nan"), None])
def test_a_number_outside_its_limits_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"xi = .* must be a number from 0 to 5"):
        real(view_of(points([1]), xi=value), "xi", 2.0, low=0, high=5)


@pytest.mark.parametrize("value", [0, 1.5, "2", True])
def test_what_is_no_whole_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"f = .* must be a whole number, at least 1"):
        whole(view_of(points([1]), f=value), "f", 3, low=1)


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(ConfigError, match="reference = 1 must be true or false"):
        flag(view_of(points([1]), reference=1), "reference")
