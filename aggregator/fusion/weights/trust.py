"""Trust in devices, from scores: how much of a fair share of the medians is theirs.

    t_k = s_k / mean_j s_j,   j over the devices of the same prototype        1: as often the median as the others

Scores are FedRAD's, of whole models on unlabeled samples; where there are none, and for predictors that came
alone, they are those of predictors on generated latents (`agreement.py`), among the devices of a prototype: its
predictors share an extractor's latent space from the first round on, those of others do not. Normalized within a
prototype, because a 1-bit model is less often the median of all than a float one, and is not worse for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from aggregator.fusion.generator.agreement import agreement
from aggregator.fusion.generator.side_artifact import predictors_of
from aggregator.fusion.types import Received, View

__all__ = ["CUT", "trust_of", "trusted_examples"]

CUT = 0.1  # of t_k: below, it speaks against a device (doubts.py)


def trust_of(
    updates: Sequence[Received], scores: Mapping[str, float], z: Tensor
) -> tuple[dict[str, float], dict[str, float]]:
    """t_k and s_k of one prototype's updates.

    `scores` are those of whole models, where there are samples. Who has none is compared by its predictor with all
    others of the prototype, on the latents `z`.
    """
    told = {update.device: scores[update.device] for update in updates if update.device in scores}
    if len(told) == len(updates):
        return _relative(told), told
    found = agreement(predictors_of(updates), z).tolist()
    agreed = dict(zip((update.device for update in updates), found, strict=True))
    return {**_relative(agreed), **_relative(told)}, {**agreed, **told}


def _relative(scores: Mapping[str, float]) -> dict[str, float]:
    mean = sum(scores.values()) / max(len(scores), 1)
    if not mean > 0:
        return dict.fromkeys(scores, 1.0)  # none of them ever is the median: nothing tells them apart
    return {device: score / mean for device, score in scores.items()}


def trusted_examples(view: View) -> Sequence[float]:
    """Weigh part: t_k n_k."""
    return [view.trust.get(update.device, 1.0) * update.num_examples for update in view.updates]
