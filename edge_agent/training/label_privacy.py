"""Private label counts: noised or binned on the device before they are sent. Standard library only.

    noise    c~ = max(0, c + X),  P(X = x) = (1 - q) / (1 + q) q^|x|,  q = exp(-epsilon)       two-sided geometric

One sample more or less changes one count by 1, so the noised counts together are epsilon-differentially private with
respect to it (Ghosh, Roughgarden and Sundararajan 2009); clamping at 0 is post-processing. The noise is derived from
the device's secret, the label and its count: the same count is always reported with the same noise, so that a hundred
rounds reveal no more than one, and the noise cannot be removed without the secret. When a count changes, its noise is
drawn again and epsilon is spent again.

    bins     c~ = the multiple of `width` nearest to c (a half goes up)

Bins hide small differences without a privacy guarantee. With both, noise is applied first. The number of examples in an
update is then the sum of the reported counts.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import random
from collections.abc import Sequence

__all__ = ["told_counts", "told_examples"]


def told_counts(
    counts: Sequence[int], *, secret: bytes, epsilon: float | None = None, width: int | None = None
) -> tuple[int, ...]:
    """The counts as reported by the device."""
    told = list(counts)
    if epsilon is not None:
        told = [max(0, c + _noise(secret, label, c, epsilon)) for label, c in enumerate(told)]
    if width is not None:
        told = [(c + width // 2) // width * width for c in told]
    return tuple(told)


def told_examples(told: Sequence[int]) -> int:
    """n_k as reported: the sum of the reported counts, at least 1, because an update of 0 examples is refused."""
    return max(sum(told), 1)


def _noise(secret: bytes, label: int, count: int, epsilon: float) -> int:
    """The difference of two geometric numbers is two-sided geometric."""
    text = repr(("label counts", label, count, epsilon)).encode()
    rng = random.Random(int.from_bytes(hmac.new(secret, text, hashlib.sha256).digest(), "big"))

    def one() -> int:
        return math.floor(math.log(1.0 - rng.random()) / -epsilon)

    return one() - one()
