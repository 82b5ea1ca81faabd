"""No device counts for more than a multiple of its prototype's median, whatever number of examples it claims.

A device says itself how many examples it has trained on, and nobody can check it. Believed, one device that claims
2^53 has the whole average. So, before any screen, weight or average, with r = `max_examples_ratio` and m the lower
median of n_j over the updates of the same prototype that came in time:

    n_k <- min(n_k, floor(r m))                          label counts are scaled along with it

The lower median of n numbers is at most an honest one while no more than n // 2 devices collude; of two devices it is
the smaller number, so a liar cannot raise its own cap. At least n // 2 others have m examples or more. So a device's
share of an example-weighted mean is at most r / (r + n // 2) whatever anybody claims, and r / (r + n - 1) where the
others all have the same number. A device that is alone in its prototype has its whole average either way.

Label counts also weigh devices of different prototypes against each other, in the labels that FedGen's generator is
trained with. For recipes that have one they count for no more than r times the lower median of the whole round: a
prototype of one device, which is its own median, does not own the labels of all. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggregator.fusion.types import Group, Received

__all__ = ["Capped", "cap_examples", "capped_text", "lower_median"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """What a device claimed and what it counted for."""

    claimed: int  # num_examples of its update
    counted: int  # in its prototype's average
    labels: int | None = None  # in the generator's label distribution, where the recipe has one


def cap_examples(
    groups: Sequence[Group], ratio: float, *, across: bool = False
) -> tuple[list[Group], dict[str, Capped]]:
    """`groups` with every claim within `ratio` medians, and who was capped; a `ratio` of 0 leaves all as they are.

    `across`: label counts are bounded by the median of the whole round too. Late updates are bounded like the others,
    but have no say in the median.
    """
    if not ratio:
        return list(groups), {}
    everybody = [update.num_examples for group in groups for update in _in_time(group)]
    most_labels = _limit(everybody, ratio) if across and everybody else None
    made, capped = [], dict[str, Capped]()
    for group in groups:
        limit = _limit([update.num_examples for update in _in_time(group)], ratio) if group.updates else 0
        updates = []
        for update in group.updates:
            bounded = _bounded(update, limit, most_labels, group.spec.classes)
            if bounded is not update and not update.late:
                labels = None if most_labels is None else min(bounded.num_examples, most_labels)
                capped[update.device] = Capped(claimed=update.num_examples, counted=bounded.num_examples, labels=labels)
            updates.append(bounded)
        made.append(replace(group, updates=updates))
    return made, capped


def lower_median(numbers: Sequence[int]) -> int:
    """The middle one; of an even number, the smaller of the two in the middle.

    >>> lower_median([9, 1, 2]), lower_median([5, 2**53])
    (2, 5)
    """
    return sorted(numbers)[(len(numbers) - 1) // 2]


def capped_text(facts: Mapping[str, int | None]) -> str:
    """`Capped` in words, for people; `facts` are its fields, as reports hold them."""
    claimed, counted, labels = facts["claimed"], facts["counted"], facts.get("labels")
    text = f"claimed {claimed:,} examples, counted for {counted:,}"
    return text if labels in (None, counted) else f"{text}, and for {labels:,} in the labels of the generator"


def _in_time(group: Group) -> Sequence[Received]:
    """Those that may be averaged; of a prototype that has none, all."""
    return [update for update in group.updates if not update.late] or group.updates


def _limit(numbers: Sequence[int], ratio: float) -> int:
    return int(ratio * max(lower_median(numbers), 1))


def _bounded(update: Received, limit: int, most_labels: int | None, classes: int) -> Received:
    """`update` itself where it claims no more than it may."""
    claimed = max(update.num_examples, sum(update.label_counts))
    labels = limit if most_labels is None else min(limit, most_labels)
    if claimed <= labels:
        return update
    counts: tuple[float, ...] = tuple(count * labels / claimed for count in update.label_counts)
    if most_labels is not None and not counts:  # told none: its examples are spread over all labels
        counts = (min(update.num_examples, labels) / classes,) * classes
    return replace(update, num_examples=min(update.num_examples, limit), label_counts=counts)
