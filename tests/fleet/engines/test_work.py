"""Training and scoring on a bench."""

from __future__ import annotations

import pytest
import torch

from aggregator.evaluate import BATCH, count
from fleet.engines.work import Bench
from tests.fleet.engines.benches import NAME, bench, news, published


@pytest.fixture(scope="module")
def made() -> Bench:
    return bench(test=2 * BATCH + 1)


def test_a_device_trains_from_what_was_published_whatever_the_model_holds(made: Bench) -> None:
    made.open(news(made))
    (first,) = made.train([(0, {})])
    (other,) = made.train([(1, {})])
    (again,) = made.train([(0, {})])
    assert first.message == again.message
    assert first.message != other.message


def test_several_devices_answer_in_their_order(made: Bench) -> None:
    made.open(news(made))
    both = list(made.train([(1, {}), (0, {})]))
    assert len(both) == 2
    assert all(answer.message for answer in both)
    (alone,) = made.train([(1, {})])
    assert len(alone.message or b"") == len(both[0].message or b"")


def test_shares_of_the_test_set_make_up_the_whole(made: Bench) -> None:
    assert made.batches == 3  # the last has one sample
    state = published(made)
    parts = [made.score(NAME, state, n, n + 1, quantized=False) for n in range(3)]
    whole = made.score(NAME, state, 0, 3, quantized=False)
    assert [pair for part in parts for pair in part] == whole
    assert len(whole) == 3
    with torch.no_grad():
        assert whole == count(made.models[NAME], *made.test)
