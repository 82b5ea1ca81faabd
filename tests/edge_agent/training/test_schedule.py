"""Which steps local training takes, and whose losses count."""

from collections.abc import Iterator

import pytest

from core.errors import DivergedError
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import clip_factor, num_steps, schedule

pytestmark = pytest.mark.light


def steps(per_epoch: int, **amount: int) -> list[tuple[bool, int]]:
    """The steps of a device with so many mini-batches, numbered on from epoch to epoch."""
    numbers = iter(range(1000))

    def epoch() -> Iterator[int]:
        return (next(numbers) for _ in range(per_epoch))

    how = LocalTraining(lr=0.1, batch_size=8, **amount)
    found = list(schedule(epoch, how))
    assert len(found) == num_steps(per_epoch, how)
    return found


@pytest.mark.parametrize(
    ("per_epoch", "amount", "taken", "counted"),
    [
        (3, {"epochs": 2}, 6, 3),
        (3, {"steps": 7}, 7, 7),
        (3, {"epochs": 2, "least_steps": 6}, 6, 3),
        (3, {"epochs": 2, "least_steps": 10}, 10, 3),  # three passes and one mini-batch
        (3, {"epochs": 4, "most_steps": 10}, 10, 3),
        (3, {"epochs": 4, "most_steps": 2}, 2, 2),  # not even one pass
        (1, {"epochs": 2, "least_steps": 20, "most_steps": 100}, 20, 1),
        (400, {"epochs": 2, "least_steps": 20, "most_steps": 100}, 100, 100),
        (30, {"epochs": 2, "least_steps": 20, "most_steps": 100}, 60, 30),
    ],
)
def test_epochs_are_bounded_and_the_last_one_counts(per_epoch: int, amount: dict, taken: int, counted: int) -> None:
    found = steps(per_epoch, **amount)
    assert [chosen for _, chosen in found] == list(range(taken))
    assert [counts for counts, _ in found] == [False] * (taken - counted) + [True] * counted


def test_the_factor_is_one_until_the_norm_is_more_than_it_may_be() -> None:
    assert clip_factor(4.0, 2.0) == 1.0
    assert clip_factor(-1e-20, 2.0) == 1.0
    assert clip_factor(16.0, 2.0) == 0.5


@pytest.mark.parametrize("squared", [float("nan"), float("inf")])
def test_a_norm_that_is_not_finite_is_an_error(squared: float) -> None:
    with pytest.raises(DivergedError, match="the gradient is not finite"):
        clip_factor(squared, 1.0)
