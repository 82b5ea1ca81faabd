"""Multi-Krum, worked by hand on a line."""

import pytest
import torch

from aggregator.fusion.numerics.geometry import squared_distances
from aggregator.fusion.weights.krum import krum, krum_scores, most_faulty, multi_krum, shifted_krum
from core.errors import ConfigError
from tests.aggregator.fusion.views import points, view_of

LINE = points([0], [1], [2], [3], [100])


def test_a_score_sums_the_squared_distances_to_the_nearest() -> None:
    # K = 5, f = 1: the two nearest; 100 is 97 and 98 away from its own
    scores = krum_scores(squared_distances(LINE), 1)
    assert scores.tolist() == pytest.approx([1 + 4, 1 + 1, 1 + 1, 1 + 4, 97**2 + 98**2])


def test_the_best_are_taken_in_order_and_ties_go_by_place() -> None:
    squares = torch.tensor([[float((a - b) ** 2) for a in (0, 1, 2, 3, 100)] for b in (0, 1, 2, 3, 100)])
    assert multi_krum(squares, 1, 3) == [1, 2, 0]


@pytest.mark.parametrize(("devices", "f"), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 1), (7, 2), (30, 13)])
def test_the_most_faulty_that_it_bears(devices: int, f: int) -> None:
    assert most_faulty(devices) == f
    assert f == 0 or 2 * f + 2 < devices


def test_the_part_leaves_out_f_by_default() -> None:
    assert krum(view_of(LINE, examples=[1, 50, 1, 1, 9])) == [1, 1, 1, 1, 0]


def test_f_and_m_are_options() -> None:
    assert krum(view_of(LINE, krum_f=0)) == [1, 1, 1, 1, 1]
    assert krum(view_of(LINE, krum_m=1)) == [0, 1, 0, 0, 0]  # plain Krum
    assert krum(view_of(LINE, krum_m=99)) == [1, 1, 1, 1, 1]
    assert krum(view_of(LINE, krum_f=99)) == krum(view_of(LINE))  # lowered to what 5 devices bear
    with pytest.raises(ConfigError, match="krum_m = 0"):
        krum(view_of(LINE, krum_m=0))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_devices_are_all_averaged(count: int) -> None:
    assert krum(view_of(LINE[-count:])) == [1] * count


def test_identical_updates_are_no_problem() -> None:
    assert sum(krum(view_of(points(*[[1.0, 2.0]] * 7)))) == 5
    # three at 9 score 36 each, those at 0, 1, 2, 3 score 14, 6, 6, 14; f = 2: the tie for the fifth place goes by id
    assert krum(view_of(points([9], [9], [9], [0], [1], [2], [3]))) == [1, 0, 0, 1, 1, 1, 1]


def test_a_norm_whose_square_overflows_float32_is_left_out() -> None:
    huge = points([0], [1], [2], [1e30], [-3e38])
    assert krum(view_of(huge)) == [1, 1, 1, 1, 0]
    assert krum(view_of(points([0], [1], [2], [3], [4], [1e30], [-3e38]))) == [1, 1, 1, 1, 1, 0, 0]


def test_the_selection_of_the_reference_is_one_off() -> None:
    # scores, not squared: 3 2 2 3 195; the best m - 1 = 3 are 1 2 0, their neighbours 2 3 1
    assert shifted_krum(squared_distances(LINE), 1) == [2, 3, 1]
    assert krum(view_of(LINE, krum_reference=True)) == [0, 1, 1, 1, 0]


def test_with_every_third_device_faulty_the_reference_averages_faulty_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    states = [
        {"w": torch.randn(50, generator=generator) * (20 if k % 3 == 2 else 0.1)} for k in range(30)
    ]  # 2, 5, 8, ...
    faulty = range(2, 30, 3)
    assert sum(krum(view_of(states))[k] for k in faulty) == 0
    shifted = krum(view_of(states, krum_reference=True))
    assert sum(shifted) == 16
    assert sum(shifted[k] for k in faulty) > 5


def test_the_reference_has_weights_for_few_devices_too() -> None:
    for count in (1, 2, 3):
        assert sum(krum(view_of(LINE[:count], krum_reference=True))) > 0
