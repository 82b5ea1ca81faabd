"""Numbers within their ranges pass, and the others are refused with the bound that they miss."""

import math

import pytest

from core import limits
from core.errors import ConfigError
from core.limits import DEVICES, LR, SEED, WORKERS, Range

pytestmark = pytest.mark.light
RANGES = {name: value for name, value in vars(limits).items() if isinstance(value, Range)}


@pytest.mark.parametrize("name", RANGES)
def test_both_ends_belong_to_a_range_and_nothing_beyond_them(name: str) -> None:
    bounds = RANGES[name]
    for value in (bounds.least, bounds.most, None):
        bounds.check(value, "--x")
    for value in (math.nextafter(bounds.most, math.inf), math.inf):
        with pytest.raises(ConfigError, match=r"^--x .*; give at most"):
            bounds.check(value, "--x")
    for value in (math.nextafter(bounds.least, -math.inf), -math.inf, math.nan):
        with pytest.raises(ConfigError, match=r"^--x .*; give at least"):
            bounds.check(value, "--x")


def test_the_message_has_the_value_and_the_bound() -> None:
    with pytest.raises(ConfigError, match=r"^--devices 200000; give at most 100,000$"):
        DEVICES.check(200_000, "--devices")
    with pytest.raises(ConfigError, match=r"^--lr 0; give at least 1e-30$"):
        LR.check(0.0, "--lr")


def test_a_whole_number_that_no_float_holds_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match=r"^--devices of more than 300 digits; give at most"):
        DEVICES.check(10**400, "--devices")


def test_a_seed_is_exact_as_a_float_and_0_workers_are_one_per_core() -> None:
    assert float(SEED.most) == 2**53
    WORKERS.check(0, "--workers")
