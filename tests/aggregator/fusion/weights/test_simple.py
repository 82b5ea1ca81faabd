"""Weights that trust everybody."""

from aggregator.fusion.weights.simple import examples, uniform
from tests.aggregator.fusion.views import points, view_of


def test_examples_are_the_numbers_of_examples() -> None:
    assert examples(view_of(points([1], [2], [3]), examples=[5, 1, 30])) == [5, 1, 30]


def test_uniform_is_one_each() -> None:
    assert uniform(view_of(points([1], [2], [3]), examples=[5, 1, 30])) == [1, 1, 1]
