"""What holds for the weights of every part, whatever devices send."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.fusion.averages.mean import mean
from aggregator.fusion.averages.median import median
from aggregator.fusion.types import Memory, View
from aggregator.fusion.weights.afa import afa
from aggregator.fusion.weights.fedmgda import fedmgda
from aggregator.fusion.weights.krum import krum
from aggregator.fusion.weights.simple import examples, uniform
from tests.aggregator.fusion.views import points, view_of

PARTS: dict[str, tuple[Callable[[View], list[float]], dict[str, Any]]] = {
    "examples": (examples, {}),
    "uniform": (uniform, {}),
    "multi-krum": (krum, {}),
    "krum, one of them": (krum, {"krum_m": 1}),
    "krum, reference": (krum, {"krum_reference": True}),
    "afa": (afa, {}),
    "afa, reference": (afa, {"afa_reference": True}),
    "fedmgda": (fedmgda, {}),
    "fedmgda, reference": (fedmgda, {"fedmgda_reference": True}),
    "fedmgda, plus": (fedmgda, {"fedmgda": "plus"}),
}
every_part = pytest.mark.parametrize("name", PARTS)
few = settings(max_examples=25, deadline=None)
#: Few distinct values, so that ties and identical updates are common; and any finite float32.
numbers = st.sampled_from([0.0, 1.0, -1.0, 2.0, 1e30]) | st.floats(width=32, allow_nan=False, allow_infinity=False)
rounds = st.integers(1, 9).flatmap(
    lambda K: st.tuples(
        st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=K, max_size=K),
        st.lists(st.integers(1, 1000), min_size=K, max_size=K),
        st.permutations(range(K)),
    )
)


@every_part
@few
@given(rounds)
def test_weights_are_finite_not_negative_and_not_all_zero(name: str, drawn: tuple[list, list, list]) -> None:
    part, options = PARTS[name]
    states, numbers_of_examples, _ = drawn
    weights = part(view_of(points(*states), examples=numbers_of_examples, **options))
    assert len(weights) == len(states)
    assert all(math.isfinite(w) and w >= 0 for w in weights)
    assert any(weights)


@every_part
@few
@given(rounds)
def test_the_order_of_updates_does_not_matter(name: str, drawn: tuple[list, list, list]) -> None:
    part, options = PARTS[name]
    rows, n, order = drawn
    devices = [f"d{k}" for k in range(len(rows))]
    weights = part(view_of(points(*rows), examples=n, devices=devices, **options))
    again = part(
        view_of(
            points(*(rows[k] for k in order)),
            examples=[n[k] for k in order],
            devices=[devices[k] for k in order],
            **options,
        )
    )
    assert again == [weights[k] for k in order]


@every_part
def test_three_rounds_of_coming_and_going_devices_are_weighed(name: str) -> None:
    part, options = PARTS[name]
    view = view_of(points([1, 0], [1, 0.1]), **options)
    for number, devices in enumerate([["a", "b"], ["b"], ["c", "d", "a"]], 1):
        states = points(*[[1.0, 0.1 * k] for k in range(len(devices))])
        weights = part(view_of(states, devices=devices, memory=view.memory, round_number=number, **options))
        assert any(weights)


@every_part
def test_memory_that_was_written_as_json_goes_on_as_it_was(name: str) -> None:
    part, options = PARTS[name]
    kept, reread = Memory(), Memory()
    for number in range(1, 5):
        states = points(*[[1.0, 0.1 * k + 0.01 * number] for k in range(6)], [-30.0, 5.0])
        weights = part(view_of(states, memory=kept, round_number=number, **options))
        assert part(view_of(states, memory=reread, round_number=number, **options)) == weights
        reread = Memory(facts=json.loads(json.dumps(reread.facts)))
    assert reread.facts == kept.facts


def one_in_eleven(seed: int, place: int) -> View:
    """Ten devices near each other, and one with noise of deviation 20 on every parameter."""
    generator = torch.Generator().manual_seed(seed)
    base = 0.1 * torch.randn(300, generator=generator)
    states = [{"w": base + 0.02 * torch.randn(300, generator=generator)} for _ in range(11)]
    states[place]["w"] += 20 * torch.randn(300, generator=generator)
    return view_of(states, previous={"w": base})


@pytest.mark.parametrize("part", [krum, afa, fedmgda])
@few
@given(seed=st.integers(0, 10**6), place=st.integers(0, 10))
def test_one_faulty_device_among_ten_honest_ones_is_left_out(
    part: Callable[[View], list[float]], seed: int, place: int
) -> None:
    view = one_in_eleven(seed, place)
    weights = part(view)
    assert weights[place] == 0
    assert (mean(view, weights)["w"] - view.previous["w"]).abs().max() < 0.1


BATCHNORM = ("bn.weight", "bn.running_mean", "bn.running_var")


@pytest.mark.parametrize(("part", "bad"), [(krum, [2, 5, 8, 11]), (afa, [2, 8]), (fedmgda, [2, 5, 8, 11])])
@pytest.mark.parametrize("noisy", [BATCHNORM[:1], BATCHNORM[1:], BATCHNORM], ids=["weights", "statistics", "both"])
@few
@given(seed=st.integers(0, 10**6))
def test_faulty_devices_are_left_out_with_batchnorm_too(
    part: Callable[[View], list[float]], bad: list[int], noisy: tuple[str, ...], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    base = {
        name: torch.rand(300, generator=generator) * size for name, size in zip(BATCHNORM, (0.1, 1, 50), strict=True)
    }
    states = [
        {name: w * (1 + 0.1 * torch.randn(300, generator=generator)) for name, w in base.items()} for _ in range(12)
    ]
    for k in bad:
        for name in noisy:
            states[k][name] = states[k][name] + 2000 * torch.randn(300, generator=generator)
    weights = part(view_of(states, previous=base))
    assert [weights[k] for k in bad] == [0] * len(bad)
    assert sum(weight > 0 for weight in weights) >= 5


@few
@given(seed=st.integers(0, 10**6), place=st.integers(0, 10))
def test_the_median_stays_among_the_honest_ones(seed: int, place: int) -> None:
    view = one_in_eleven(seed, place)
    honest = torch.stack([u.state()["w"] for k, u in enumerate(view.updates) if k != place])
    found = median(view, [1.0] * 11)["w"]
    assert bool((found >= honest.min(0).values).all())
    assert bool((found <= honest.max(0).values).all())
