"""No claim buys more than a multiple of the median: numbers by hand, the bound for any claims, and in every recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.fusion.example_cap import Capped, cap_examples, capped_text, lower_median
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Fused, Group, Memory, Received, Server
from aggregator.recipes.catalogue import MAX_EXAMPLES_RATIO, RECIPES, find_recipe
from models.build import build
from models.roles import LABEL_LOGITS
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype

MLP, WIDE = (PrototypeSpec(*parse_prototype(name), (1, 4, 4), 3, 8) for name in ("mlp:fp32", "mlp:w1"))
LIE = 2**53
SHORT = {"steps": 4, "batch_size": 8, "check_every": 2}
SERVER = Server(seed=1, source=torch.randn(24, 1, 4, 4, generator=torch.Generator().manual_seed(0)))


def claim(device: str, examples: int, **changes: object) -> Received:
    """An update of which only the claim matters."""
    return replace(Received(device=device, num_examples=examples, state=dict), **changes)


def claims(*examples: int, spec: PrototypeSpec = MLP) -> Group:
    return Group(spec=spec, previous={}, updates=[claim(f"{spec}-{k}", n) for k, n in enumerate(examples)])


def counted(group: Group, ratio: float = 3.0) -> list[int]:
    (bounded,), _ = cap_examples([group], ratio)
    return [update.num_examples for update in bounded.updates]


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        ((5,), [5]),  # alone: its own median
        ((LIE,), [LIE]),
        ((5, LIE), [5, 15]),  # of two the smaller: the liar does not raise its own cap
        ((LIE, 5), [15, 5]),
        ((4, 5, LIE), [4, 5, 15]),
        ((4, LIE, LIE), [4, LIE, LIE]),  # two of three collude: more than half, and no bound
        ((4, 6, LIE, LIE), [4, 6, 18, 18]),  # two of four
        ((1, 1, 1, 90), [1, 1, 1, 3]),  # the median of small devices is small
        ((10, 20, 30), [10, 20, 30]),
        ((10, 10, 30), [10, 10, 30]),  # three medians are allowed, and more is not
        ((10, 10, 31), [10, 10, 30]),
    ],
)
def test_claims_are_cut_at_three_lower_medians(examples: tuple[int, ...], expected: list[int]) -> None:
    assert counted(claims(*examples)) == expected


def test_a_ratio_that_is_no_whole_number_is_rounded_down_and_0_bounds_nobody() -> None:
    assert counted(claims(3, 3, 100), 2.5) == [3, 3, 7]
    group = claims(1, 1, LIE)
    assert cap_examples([group], 0.0) == ([group], {})


def test_label_counts_are_scaled_along_and_nothing_else_is_changed() -> None:
    honest = [claim(device, 10, label_counts=(5, 5, 0)) for device in ("a", "b")]
    liar = claim("c", 300, label_counts=(299, 0, 1), predictor_only=True)
    (group,), capped = cap_examples([Group(spec=MLP, previous={}, updates=[*honest, liar])], 3.0)
    assert group.updates[:2] == honest
    assert group.updates[2] == replace(liar, num_examples=30, label_counts=(29.9, 0.0, 0.1))
    assert capped == {"c": Capped(claimed=300, counted=30)}


def test_counts_that_sum_to_more_than_the_examples_are_bounded_by_their_sum() -> None:
    updates = [claim("a", 10), claim("b", 10), claim("c", 10, label_counts=(0, 600, 0))]
    (group,), capped = cap_examples([Group(spec=MLP, previous={}, updates=updates)], 3.0)
    assert group.updates[2].label_counts == (0.0, 30.0, 0.0)
    assert list(capped) == ["c"]


def test_late_updates_are_bounded_and_have_no_say_in_the_median() -> None:
    late = [claim(f"late-{k}", LIE, late=True) for k in range(4)]
    (group,), capped = cap_examples([Group(spec=MLP, previous={}, updates=[claim("a", 10), *late])], 3.0)
    assert [update.num_examples for update in group.updates] == [10, 30, 30, 30, 30]
    assert capped == {}, "they are never averaged: a report would be of the device's update of this round"
    (alone,), _ = cap_examples([Group(spec=MLP, previous={}, updates=late[:1])], 3.0)
    assert alone.updates[0].num_examples == LIE


def test_across_prototypes_labels_are_bounded_by_the_median_of_the_round() -> None:
    """The device that is alone in its prototype has that average, and 30 of 70 examples of the generator's labels."""
    alone = Group(spec=WIDE, previous={}, updates=[claim("x", LIE, label_counts=(LIE, 0, 0))])
    groups, capped = cap_examples([claims(10, 10, 10, 10), alone], 3.0, across=True)
    (bounded,) = groups[1].updates
    assert (bounded.num_examples, bounded.label_counts) == (LIE, (30.0, 0.0, 0.0))
    assert capped == {"x": Capped(claimed=LIE, counted=LIE, labels=30)}
    assert cap_examples([claims(10, 10, 10, 10), alone], 3.0) == ([claims(10, 10, 10, 10), alone], {})
    quiet = Group(spec=WIDE, previous={}, updates=[claim("x", LIE)])
    groups, _ = cap_examples([claims(10, 10, 10, 10), quiet], 3.0, across=True)
    assert groups[1].updates[0].label_counts == (10.0, 10.0, 10.0), "spread, as of a device that tells none"


def test_a_capped_claim_in_words() -> None:
    assert capped_text({"claimed": LIE, "counted": 360}) == "claimed 9,007,199,254,740,992 examples, counted for 360"
    across = capped_text({"claimed": 1000, "counted": 1000, "labels": 30})
    assert across == "claimed 1,000 examples, counted for 1,000, and for 30 in the labels of the generator"
    assert capped_text({"claimed": 9, "counted": 3, "labels": 3}) == "claimed 9 examples, counted for 3"


ratios = st.sampled_from([1.0, 1.5, 2.0, MAX_EXAMPLES_RATIO, 10.0])
numbers = st.integers(1, LIE)


@settings(max_examples=100, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=30), ratios)
def test_whatever_is_claimed_no_share_of_the_mean_exceeds_the_bound(examples: list[int], ratio: float) -> None:
    left = counted(claims(*examples), ratio)
    n, total = len(left), sum(left)
    assert all(1 <= after <= before for after, before in zip(left, examples, strict=True))
    assert max(left) / total <= ratio / (ratio + n // 2) * (1 + 1e-12)
    assert max(left) <= ratio * lower_median(examples)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(2, 30), st.integers(1, 10**6), ratios)
def test_colluders_up_to_half_share_no_more_than_that_many_bounds(
    data: st.DataObject, devices: int, honest: int, ratio: float
) -> None:
    """c liars among devices that all have the same number: c r / (n - c + c r) together, whatever they claim."""
    liars = data.draw(st.lists(numbers, min_size=1, max_size=devices // 2))
    left = counted(claims(*[honest] * (devices - len(liars)), *liars), ratio)
    c = len(liars)
    assert sum(left[-c:]) / sum(left) <= c * ratio / (devices - c + c * ratio) * (1 + 1e-12)


def sent(spec: PrototypeSpec, number: int, examples: int) -> Received:
    """A model near the published one, and logits by label."""
    state = {name: w + 0.1 * torch.randn(w.shape, generator=torch_rng(number, name)) for name, w in start(spec).items()}
    logits = torch.randn(3, 3, generator=torch_rng(number, "logits"))
    counts = (examples - 2 * (examples // 3), examples // 3, examples // 3)
    return Received(
        device=f"{spec.precision}-{number}",
        num_examples=examples,
        state=lambda: state,
        label_counts=counts,
        extra=lambda: {LABEL_LOGITS: logits},
    )


def start(spec: PrototypeSpec) -> dict[str, torch.Tensor]:
    state = build(spec, generator=torch_rng(0, "published")).state_dict()
    return {name: w for name, w in state.items() if not name.endswith("num_batches_tracked")}


def fused(recipe: str, examples: Sequence[int], **overrides: object) -> Fused:
    """Devices of one prototype that have so many examples; the first is the one that may lie."""
    found = find_recipe(recipe, {**SHORT, **overrides})
    group = Group(spec=MLP, previous=start(MLP), updates=[sent(MLP, n, e) for n, e in enumerate(examples)])
    if found.update == "logits":
        group = replace(group, updates=[replace(update, model=False) for update in group.updates])
    return fuse_round(found, [group], SERVER if found.uses_source else Server(seed=1), 1, Memory())


def odds(result: Fused) -> float:
    weight = result.devices["fp32-0"].weight
    return weight / (1 - weight)


@pytest.mark.parametrize("recipe", RECIPES)
def test_in_every_recipe_a_lie_multiplies_a_devices_odds_by_the_ratio_at_most(recipe: str) -> None:
    honest, lying = fused(recipe, [90] * 7), fused(recipe, [LIE, *[90] * 6])
    assert odds(lying) <= MAX_EXAMPLES_RATIO * odds(honest) * (1 + 1e-9)
    assert lying.devices["fp32-0"].weight < 0.5
    report = lying.devices["fp32-0"].capped
    assert report is not None
    assert (report.claimed, report.counted) == (LIE, 270)
    assert all(device.capped is None for name, device in lying.devices.items() if name != "fp32-0")


@pytest.mark.parametrize("recipe", ["fedavg", "fedrad", "edgestill"])
def test_without_the_cap_one_liar_has_the_whole_average(recipe: str) -> None:
    owned = fused(recipe, [LIE, *[90] * 6], max_examples_ratio=0)
    assert owned.devices["fp32-0"].weight > 0.9999
    assert owned.devices["fp32-0"].capped is None


def test_the_generator_draws_labels_by_bounded_counts() -> None:
    """Of seven devices one claims 2^53 examples of label 0: (3 + 6/3) / 9 of the draws, and not all."""
    liar = replace(sent(MLP, 0, LIE), label_counts=(LIE, 0, 0))
    group = Group(spec=MLP, previous=start(MLP), updates=[liar, *(sent(MLP, n, 90) for n in range(1, 7))])
    made = fuse_round(find_recipe("fedgen"), [group], Server(seed=1), 1, Memory()).side_artifact
    assert made is not None
    assert made.tensors["labels"].tolist() == pytest.approx([5 / 9, 2 / 9, 2 / 9])


@pytest.mark.parametrize("recipe", RECIPES)
def test_where_nobody_exceeds_the_cap_the_bits_are_those_without_it(recipe: str) -> None:
    examples = [90, 30, 31, 89, 60]
    capped, free = fused(recipe, examples), fused(recipe, examples, max_examples_ratio=0)
    assert {name: report.weight for name, report in capped.devices.items()} == {
        name: report.weight for name, report in free.devices.items()
    }
    for name, state in capped.states.items():
        assert all(torch.equal(tensor, free.states[name][key]) for key, tensor in state.items())
    if capped.side_artifact is not None:
        assert free.side_artifact is not None
        assert all(torch.equal(t, free.side_artifact.tensors[n]) for n, t in capped.side_artifact.tensors.items())
