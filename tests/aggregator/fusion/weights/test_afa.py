"""AFA, worked by hand in the plane."""

import math

import pytest
import torch

from aggregator.fusion.numerics.geometry import gram
from aggregator.fusion.types import Memory
from aggregator.fusion.weights.afa import afa, blocked, good_updates, is_untrustworthy, similarities
from tests.aggregator.fusion.views import points, view_of

EAST, NORTH = [1.0, 0.0], [0.0, 1.0]


def test_similarity_is_the_cosine_to_the_average() -> None:
    # the average of 3 x east and 1 x north is (0.75, 0.25)
    products = gram(points(EAST, EAST, [5.0, 0.0], NORTH))
    weights = torch.tensor([0.25, 0.45, 0.01, 0.25], dtype=torch.float64)  # 0.25 + 0.45 + 5 * 0.01 = 0.75
    s = similarities(products, weights)
    east, north = 0.75 / math.hypot(0.75, 0.25), 0.25 / math.hypot(0.75, 0.25)
    assert s.tolist() == pytest.approx([east, east, east, north])


def test_a_vector_of_zeros_has_similarity_zero() -> None:
    products = gram(points([0.0, 0.0], EAST))
    assert similarities(products, torch.tensor([0.5, 0.5], dtype=torch.float64)).tolist() == [0, 1]
    assert similarities(products, torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist() == [0, 0]


def test_who_points_elsewhere_is_bad_once_there_are_enough_others() -> None:
    # one of K differs by d: std = d / sqrt(K), so 2 std < d from K = 5 on
    assert good_updates(gram(points(*[EAST] * 4, NORTH)), [1] * 5) == [True] * 4 + [False]
    assert good_updates(gram(points(*[EAST] * 2, NORTH)), [1] * 3) == [True] * 3


def test_who_is_too_similar_is_bad_where_the_mean_is_above_the_median() -> None:
    # five small ones at right angles, and one so large that it is the average: s = 1 against 1/1000
    states = points(*(torch.eye(6)[:5].tolist()), [0, 0, 0, 0, 0, 1000])
    assert good_updates(gram(states), [1] * 6) == [True] * 5 + [False]


def test_the_loop_finds_what_the_first_turn_hid() -> None:
    # a huge one hides one that points backwards
    states = points(*[EAST] * 9, [-1.0, 0.0], [0.0, 1e6])
    assert good_updates(gram(states), [1] * 11) == [True] * 9 + [False, False]


def test_updates_of_weight_zero_take_no_part() -> None:
    assert good_updates(gram(points(*[EAST] * 5, NORTH)), [1, 1, 1, 1, 0, 1]) == [True] * 4 + [False, False]


def test_in_the_reference_what_was_left_out_counts_as_similarity_zero() -> None:
    # good: 1, 1, 1, with one left out before as 0: mean 0.75 < median 1, so low ones would be bad; none is
    products = gram(points(*[EAST] * 3, NORTH))
    assert good_updates(products, [1, 1, 1, 0], reference=True) == [True, True, True, False]
    # good: 1 alone among nine 0s: it is above 0 + 2 * 0.316, but somebody must stay
    products = gram(points(*[EAST] * 10))
    assert good_updates(products, [1] + [0] * 9, reference=True) == [True] + [False] * 9


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_identical_updates_are_all_good(count: int) -> None:
    state = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(1))}
    assert good_updates(gram([state] * count), list(range(1, count + 1))) == [True] * count


def test_overflow_in_float32_does_not_matter() -> None:
    states = points(*[EAST] * 6, [1e30, -1e30])
    assert good_updates(gram(states), [1] * 7) == [True] * 6 + [False]


def test_six_bad_rounds_in_a_row_are_too_many() -> None:
    assert not is_untrustworthy(3, 8)  # 0.945
    assert is_untrustworthy(3, 9)  # 0.967
    assert not is_untrustworthy(9, 3)


def test_weights_are_examples_times_trust() -> None:
    memory = Memory()
    states = points(*[EAST] * 4, NORTH)
    first = afa(view_of(states, examples=[10, 20, 30, 40, 50], memory=memory))
    assert first == pytest.approx([5, 10, 15, 20, 0])  # 3 / 6
    assert memory.facts["afa/mlp:fp32/trust"]["d00"] == [4, 3]
    assert memory.facts["afa/mlp:fp32/trust"]["d04"] == [3, 4]
    assert memory.facts["afa/mlp:fp32/blocked"] == {}
    second = afa(view_of(states, examples=[7, 7, 7, 7, 7], memory=memory))
    assert second == pytest.approx([4, 4, 4, 4, 0])  # 7 * 4 / 7
    # a newcomer has the prior; who is absent is remembered
    third = afa(view_of(points(EAST, EAST), devices=["d00", "new"], examples=[8, 8], memory=memory))
    assert third == pytest.approx([8 * 5 / 8, 4])
    assert memory.facts["afa/mlp:fp32/trust"]["d04"] == [3, 5]


def test_weights_of_the_reference_are_alpha_over_beta_after_the_round() -> None:
    weights = afa(view_of(points(*[EAST] * 4, NORTH), examples=[3] * 5, afa_reference=True))
    assert weights == pytest.approx([4, 4, 4, 4, 0])  # 3 * 4 / 3


def test_after_six_bad_rounds_a_device_is_blocked_for_good() -> None:
    memory = Memory()
    for number in range(1, 7):
        view = view_of(points(*[EAST] * 5, NORTH), memory=memory, round_number=number)
        assert blocked(view) == [None] * 6
        assert afa(view)[5] == 0
    assert memory.facts["afa/mlp:fp32/blocked"] == {"d05": 6}
    reformed = view_of(points(*[EAST] * 6), memory=memory, round_number=7)
    assert blocked(reformed) == [None] * 5 + ["blocked by afa since round 6"]
    assert afa(reformed)[5] == 0
    assert memory.facts["afa/mlp:fp32/trust"]["d05"] == [3, 9]  # no longer judged
    assert afa(view_of(points(EAST), devices=["d05"], memory=memory, round_number=8)) == [0]


def test_a_round_leaves_the_memory_of_the_round_before_alone() -> None:
    memory = Memory()
    afa(view_of(points(EAST), memory=memory))
    before = memory.facts["afa/mlp:fp32/trust"]
    afa(view_of(points(EAST), memory=memory, round_number=2))
    assert before == {"d00": [4, 3]}
