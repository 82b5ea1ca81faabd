"""The trust part `two-doubts`: trust in devices from independent signals (doubts.py).

Whole models are evaluated on samples if there are any; otherwise, and for predictor-only updates, predictors are
evaluated on generated latents, and the norm of updates is bounded (norm_bound.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from aggregator.fusion.generator.side_artifact import predictors_of
from aggregator.fusion.options import real
from aggregator.fusion.types import Trusted, View
from aggregator.fusion.weights.doubts import (
    SENSE,
    Answers,
    Doubts,
    alone_by_counts,
    always_the_same,
    answers_of,
    mean_sense,
)
from aggregator.fusion.weights.norm_bound import REACH, drawn_back, far_off
from aggregator.fusion.weights.single_label import CUT as LEAN
from aggregator.fusion.weights.single_label import mean_leaning, one_sided
from aggregator.fusion.weights.trust import CUT, trust_of

__all__ = ["two_doubts"]

INPUTS = 512  # samples on which models are evaluated


def two_doubts(view: View) -> Trusted:
    """Full trust without a doubt, the score relative to the others' with one, none with two."""
    assert view.latents is not None, "the part says that it needs latents"
    asked = all(update.device in view.scores for update in view.updates)  # whole models were evaluated on samples
    relative, scores = trust_of(view.members, view.scores, view.latents)
    doubts = _doubts(view, relative)
    reach = real(view, "trust_reach", REACH, low=0)
    return Trusted(
        shares={device: doubts.share(device, share) for device, share in relative.items()},
        excluded=doubts.excluded,
        scores=scores,
        updates=None if asked else drawn_back(view.updates, view.previous, reach),
    )


def _doubts(view: View, relative: Mapping[str, float]) -> Doubts:
    """The doubts about the devices of one prototype."""
    members, doubts = view.members, Doubts.of(view.members)
    cut, lean = real(view, "trust_cut", CUT, low=0), real(view, "trust_lean", LEAN, low=0)
    for device, share in relative.items():
        if share < cut:
            doubts.add(device, "is hardly ever the median of its prototype's devices")
    for sent in (view.updates, view.alone):
        for device, times in far_off(sent, view.previous, real(view, "trust_reach", REACH, low=0)):
            doubts.add(device, f"moved {times:.0f} times as far as the others")
    if lean >= 1:
        return doubts
    leans = mean_leaning(members, view.memory)
    drifting = one_sided(leans, len(view.previous["predictor.bias"]), lean)
    devices, answers = _answers(view)
    sense = mean_sense(answers, devices, view.memory)
    same = always_the_same(dict(zip(devices, answers.most.tolist(), strict=True)))
    for device in sorted(drifting | same):
        doubts.add(device, "teaches one label and nothing else" if device in drifting else "answers with one label")
    for device, value in sense.items():
        if value < SENSE:
            doubts.add(device, f"its answers do not follow the samples (rank correlation {value:.2f})")
    for device in sorted(alone_by_counts(members)):
        doubts.add(device, "has one label alone where the others have many")
    return doubts


def _answers(view: View) -> tuple[list[str], Answers]:
    """The devices' predictions: of their models on samples, with those of all devices, else of predictors on
    latents."""
    members = [update.device for update in view.members]
    if view.ensemble is None or view.alone:
        assert view.latents is not None
        return members, answers_of(predictors_of(view.members).logits(view.latents))
    devices, logits = view.ensemble.answers(INPUTS)
    at = {device: k for k, device in reversed(list(enumerate(devices)))}  # if also with a late model: the first
    return members, answers_of(logits).only([at[device] for device in members])
