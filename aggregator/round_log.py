"""Log lines about a round's devices: lost, excluded, or capped ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from aggregator.fusion.example_cap import capped_text
from aggregator.recipes.lr_decay import hyper_of_round
from core.lost_devices import FATAL, NOTABLE, lost_text, remedy
from wire.messages import Hyper

__all__ = ["log_closed", "log_lost", "some"]

log = logging.getLogger("edgestill.aggregator")
NAMED = 10  # devices in a log line
CAPPED = 5  # devices that the log line names


def some(names: Sequence[str]) -> str:
    """The first few, and how many more.

    >>> some(["a", "b"])
    'a b'
    """
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return " ".join(names[:NAMED]) + more


def log_lost(hyper: Hyper, number: int, lost: dict[str, str], asked: int) -> None:
    """Log lost devices once a round when they exceed a tenth of those invited, and again when they exceed half."""
    crossed = [share for share in (NOTABLE, FATAL) if len(lost) > share * asked >= len(lost) - 1]
    if not crossed:
        return
    training = {
        "lr": hyper_of_round(hyper, number).lr,
        "batch_size": hyper.batch_size,
        "momentum": hyper.momentum,
        "clip": hyper.extra.get("clip", 0.0),
    }
    help_text = remedy(training, lr="[train] lr", clip="[train] clip =")
    level = logging.ERROR if FATAL in crossed else logging.WARNING
    log.log(level, "round %d: %s; %s", number, lost_text(lost, asked), help_text, extra={"round": number})


def log_closed(
    number: int, accuracies: Mapping[str, float], report: Mapping[str, Any], full: Mapping[str, float]
) -> None:
    """Log a closed round: its new models' accuracies, and devices that fusion excluded or capped.

    `accuracies` are those of the models as boards run them, `full` those of quantized ones with float weights.
    """
    scores = [
        f"{prototype} {accuracy:.3f}" + (f" (float weights {full[prototype]:.3f})" if prototype in full else "")
        for prototype, accuracy in accuracies.items()
    ]
    log.info("round %d closed%s", number, f": accuracy {', '.join(scores)}" if scores else "", extra={"round": number})
    reports = report.get("devices", {})
    for device, facts in reports.items():
        if facts["screened"]:
            log.warning(
                "round %d: the update of %r was excluded: %s",
                number,
                device,
                facts["screened"],
                extra={"device": device, "round": number},
            )
    # a single line, because a fleet may have large devices in every round
    capped = {device: capped_text(facts["capped"]) for device, facts in reports.items() if facts.get("capped")}
    if capped:
        some = "; ".join(f"{device!r} {text}" for device, text in list(capped.items())[:CAPPED])
        more = f"; and {len(capped) - CAPPED} more" if len(capped) > CAPPED else ""
        log.warning(
            "round %d: capped by [fusion] max_examples_ratio: %s%s", number, some, more, extra={"round": number}
        )
