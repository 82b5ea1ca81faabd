"""The rounds of a run for experiment trackers (`--track`): the figures of `run.json`, after every round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.tracking.follower import NOTES, Following
from aggregator.tracking.records import RoundRecord, TrackedRun, of_prototype
from aggregator.tracking.targets import parse_targets
from fleet.simulation.settings.layers import about

if TYPE_CHECKING:
    from aggregator.tracking.targets import Target
    from fleet.results.run_file import RoundResult, Run

__all__ = ["find_trackers", "record_of", "tracked"]


def find_trackers(track: tuple[str, ...]) -> tuple[Target, ...]:
    """The trackers of a run; ConfigError if the packages of one are missing."""
    with about("track"):
        return parse_targets(track, installed=True)


@contextmanager
def tracked(
    targets: tuple[Target, ...], run: Run, out_dir: Path | None, *, resume: bool, warn: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """A function to call after every round; a resumed run goes on in the same runs of its trackers."""
    if not targets:
        yield lambda: None
        return
    notes = None if out_dir is None else out_dir / NOTES
    if notes is not None and not resume:
        notes.unlink(missing_ok=True)
    name = f"edgestill-{datetime.now():%Y%m%d-%H%M%S}" if out_dir is None else out_dir.resolve().name
    records = [record_of(result) for result in run.rounds]

    def follow() -> None:
        records.extend(record_of(result) for result in run.rounds[len(records) :])
        following.wake()

    described = TrackedRun(name=name, settings={key: value for key, value in run.config.items() if key != "track"})
    with Following(targets, described, lambda n: records[n:], notes=notes, warn=warn) as following:
        yield follow
        following.complete = len(run.rounds) == run.config["rounds"]


def record_of(result: RoundResult) -> RoundRecord:
    """The figures of a round that was completed just now."""
    metrics: dict[str, float] = {}
    for name, prototype in result.prototypes.items():
        metrics |= of_prototype(name, asdict(prototype))
    excluded = sum(facts.get("screened") is not None for facts in result.devices.values())
    metrics |= {
        "devices/asked": result.asked,
        "devices/lost": len(result.lost),
        "devices/excluded": excluded,
        "bytes/up": result.bytes_up,
        "bytes/down": result.bytes_down,
        "seconds/round": result.seconds,
        **{f"seconds/{stage}": seconds for stage, seconds in result.seconds_by.items()},
    }
    return RoundRecord(round=result.round, time=time.time(), metrics=metrics)
