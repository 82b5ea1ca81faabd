"""Caps the number of examples that a device counts for at a multiple of its prototype's median.

The number of examples is reported by the device and cannot be verified. Without a cap, one device that claims 2^53
determines the whole average. So, before any screen, weight or average, with r = `max_examples_ratio` and m the lower
median of n_j over the timely updates of the same prototype:

    n_k <- min(n_k, floor(r m))                          label counts are scaled accordingly

The lower median of n numbers is at most an honest one while no more than n // 2 devices collude; of two devices it is
the smaller number, so a false claim cannot raise its own cap. At least n // 2 others have m examples or more. So a
device's share of an example-weighted mean is at most r / (r + n // 2) whatever any device claims, and r / (r + n - 1)
if the others all have the same number. A device that is alone in its prototype determines its average either way.

Label counts also weigh devices of different prototypes against each other, in the labels that FedGen's generator is
trained with. For recipes with a generator they count for at most r times the lower median of the whole round: otherwise
a prototype of one device, which is its own median, could dominate the labels of all. Imports no torch.
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
    """The number of examples that a device reported, and the number used."""

    claimed: int  # num_examples of its update
    counted: int  # in its prototype's average
    labels: int | None = None  # in the generator's label distribution, if the recipe has one


def cap_examples(
    groups: Sequence[Group], ratio: float, *, across: bool = False
) -> tuple[list[Group], dict[str, Capped]]:
    """`groups` with every claim within `ratio` medians, and the capped devices; a `ratio` of 0 changes nothing.

    `across`: label counts are also bounded by the median of the whole round. Late updates are bounded like the others,
    but do not affect the median.
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
    """The median; of an even number of values, the smaller of the two in the middle.

    >>> lower_median([9, 1, 2]), lower_median([5, 2**53])
    (2, 5)
    """
    return sorted(numbers)[(len(numbers) - 1) // 2]


def capped_text(facts: Mapping[str, int | None]) -> str:
    """A description of `Capped`; `facts` are its fields, as stored in reports."""
    claimed, counted, labels = facts["claimed"], facts["counted"], facts.get("labels")
    text = f"claimed {claimed:,} examples, counted for {counted:,}"
    return text if labels in (None, counted) else f"{text}, and for {labels:,} in the labels of the generator"


def _in_time(group: Group) -> Sequence[Received]:
    """The updates that may be averaged; if a prototype has none, all."""
    return [update for update in group.updates if not update.late] or group.updates


def _limit(numbers: Sequence[int], ratio: float) -> int:
    return int(ratio * max(lower_median(numbers), 1))


def _bounded(update: Received, limit: int, most_labels: int | None, classes: int) -> Received:
    """`update`, with its claim capped if necessary."""
    claimed = max(update.num_examples, sum(update.label_counts))
    labels = limit if most_labels is None else min(limit, most_labels)
    if claimed <= labels:
        return update
    counts: tuple[float, ...] = tuple(count * labels / claimed for count in update.label_counts)
    if most_labels is not None and not counts:  # not reported: its examples are spread over all labels
        counts = (min(update.num_examples, labels) / classes,) * classes
    return replace(update, num_examples=min(update.num_examples, limit), label_counts=counts)
