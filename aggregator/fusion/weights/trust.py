"""Trust in devices, from scores: their share of the medians relative to a fair share.

    t_k = s_k / mean_j s_j,   j over the devices of the same prototype        1: the median as often as the others

Scores are FedRAD's, of whole models on unlabeled samples; without samples, and for predictor-only updates, they are
those of predictors on generated latents (`agreement.py`), among the devices of a prototype: its predictors share a
latent space from the first round on, those of other prototypes do not. They are normalized within a prototype, because
a 1-bit model is less often the median of all models than a float one, without being worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from aggregator.fusion.generator.agreement import agreement
from aggregator.fusion.generator.side_artifact import predictors_of
from aggregator.fusion.types import Received, View

__all__ = ["CUT", "trust_of", "trusted_examples"]

CUT = 0.1  # of t_k: below, it is a doubt (doubts.py)


def trust_of(
    updates: Sequence[Received], scores: Mapping[str, float], z: Tensor
) -> tuple[dict[str, float], dict[str, float]]:
    """t_k and s_k of one prototype's updates.

    `scores` are those of whole models, if there are samples. A device without a score is compared by its predictor with
    all others of the prototype, on the latents `z`.
    """
    scored = {update.device: scores[update.device] for update in updates if update.device in scores}
    if len(scored) == len(updates):
        return _relative(scored), scored
    agreements = agreement(predictors_of(updates), z).tolist()
    agreed = dict(zip((update.device for update in updates), agreements, strict=True))
    return {**_relative(agreed), **_relative(scored)}, {**agreed, **scored}


def _relative(scores: Mapping[str, float]) -> dict[str, float]:
    mean = sum(scores.values()) / max(len(scores), 1)
    if not mean > 0:
        return dict.fromkeys(scores, 1.0)  # none of them is ever the median: they cannot be distinguished
    return {device: score / mean for device, score in scores.items()}


def trusted_examples(view: View) -> Sequence[float]:
    """Weigh part: t_k n_k."""
    return [view.trust.get(update.device, 1.0) * update.num_examples for update in view.updates]
