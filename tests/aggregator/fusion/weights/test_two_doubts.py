"""Who is trusted, and how far, on predictors of three classes: one doubt costs a share, two the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from aggregator.fusion.types import Received, View
from aggregator.fusion.weights.two_doubts import two_doubts
from tests.aggregator.fusion.views import view_of

PREVIOUS = {"predictor.weight": 3 * torch.eye(3), "predictor.bias": torch.zeros(3)}
LATENTS = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
FAIR = {f"d{k:02}": 0.2 for k in range(5)}


def trained(number: int, length: float = 0.1) -> dict[str, torch.Tensor]:
    """The published predictor after a step of this length, in a direction of its own."""
    rng = torch.Generator().manual_seed(number)
    step = {name: torch.randn(w.shape, generator=rng) for name, w in PREVIOUS.items()}
    norm = torch.cat([part.flatten() for part in step.values()]).norm()
    return {name: w + length * step[name] / norm for name, w in PREVIOUS.items()}


def view(last: dict[str, torch.Tensor], scores: dict[str, float] | None = None, **options: Any) -> View:
    """Four devices that are alike, and d04, which sends `last`."""
    states = [*(trained(k) for k in range(4)), last]
    return replace(view_of(states, previous=PREVIOUS, **options), latents=LATENTS, scores=scores or {})


def test_devices_that_are_alike_are_trusted_fully() -> None:
    said = two_doubts(view(trained(4), FAIR))
    assert dict(said.shares) == dict.fromkeys(FAIR, 1.0)
    assert said.excluded == {}
    assert dict(said.scores) == FAIR


def test_with_one_doubt_a_device_counts_for_its_score_relative_to_the_others() -> None:
    scores = {**FAIR, "d04": 0.05}  # its mean is 0.17
    said = two_doubts(view(trained(4, length=2.0), scores))
    assert said.excluded == {}
    assert said.shares["d04"] == pytest.approx(0.05 / 0.17)
    assert said.shares["d00"] == 1.0


def test_two_doubts_of_different_kinds_exclude_with_both_reasons() -> None:
    said = two_doubts(view(trained(4, length=2.0), {**FAIR, "d04": 0.001}))
    assert list(said.excluded) == ["d04"]
    assert said.excluded["d04"].startswith("is hardly ever the median of its prototype's devices; moved 20 times")
    assert said.shares["d04"] == 0.0


def test_the_options_of_the_recipe_set_the_bounds() -> None:
    far = view(trained(4, length=2.0), {**FAIR, "d04": 0.001}, trust_reach=30)
    assert two_doubts(far).excluded == {}
    lenient = view(trained(4, length=2.0), {**FAIR, "d04": 0.001}, trust_cut=0)
    assert two_doubts(lenient).excluded == {}


def test_label_counts_are_a_doubt_unless_leaning_is_switched_off() -> None:
    def counted(update: Received) -> Received:
        return replace(update, label_counts=(9, 0, 0) if update.device == "d04" else (3, 3, 3))

    scores = {**FAIR, "d04": 0.001}
    for options, excluded in (({}, ["d04"]), ({"trust_lean": 1.0}, [])):
        seen = view(trained(4), scores, **options)
        said = two_doubts(replace(seen, updates=[counted(update) for update in seen.updates]))
        assert list(said.excluded) == excluded


def test_without_samples_updates_that_went_far_are_drawn_back_and_with_scores_they_are_not() -> None:
    last = trained(4, length=2.0)
    assert two_doubts(view(last, FAIR)).updates is None
    bounded = two_doubts(view(last)).updates
    assert bounded is not None
    moved = torch.cat([(w - PREVIOUS[name]).flatten() for name, w in bounded[4].state().items()]).norm()
    assert float(moved) == pytest.approx(0.5, rel=1e-3)  # five times the median of 0.1
    assert torch.equal(bounded[0].state()["predictor.bias"], trained(0)["predictor.bias"])
