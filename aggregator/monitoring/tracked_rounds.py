"""The rounds of a fleet for experiment trackers (`track` of [monitor]), read from the journal by the trackers' threads.

A tracker that was away, or a service that was, costs no round: after a restart each tracker goes on after the last
round that `trackers.json` in the state folder says it has. A relative DIR of `tensorboard:DIR` is below the folder of
the fleet.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal
from aggregator.storage.rows import RoundRow, UpdateRow
from aggregator.tracking.follower import NOTES, Following
from aggregator.tracking.records import RoundRecord, TrackedRun, of_prototype
from aggregator.tracking.targets import Target, parse_targets

__all__ = ["fleet_trackers", "follow_fleet", "records_after"]

EVERY_S = 2.0
GOODBYE_S = 10.0  # at the end of the service, which has to end soon; the rest is written after the next start
AT_ONCE = 100  # rounds of one read
SETTINGS = ("fleet", "task", "prototypes", "round", "train", "fusion")  # the tables of fleet.toml


def fleet_trackers(config: FleetConfig) -> tuple[Target, ...]:
    """The trackers that the configuration asks for; ConfigError if the packages of one are missing."""
    folder = config.path.resolve().parent
    return tuple(
        Target(target.kind, str(folder / Path(target.where).expanduser())) if target.kind == "tensorboard" else target
        for target in parse_targets(config.monitor.track, installed=True)
    )


def follow_fleet(config: FleetConfig, targets: Sequence[Target]) -> Following:
    """Follows the journal of the fleet while its context is open."""
    facts = config.to_json()
    settings: dict[str, Any] = {table: facts[table] for table in SETTINGS} | {"devices": len(config.devices)}
    run = TrackedRun(name=config.fleet, settings=settings)
    journal = config.state / "journal.db"
    notes = config.state / NOTES
    return Following(targets, run, _source(journal), notes=notes, every_s=EVERY_S, goodbye_s=GOODBYE_S)


def _source(path: Path) -> Callable[[int], list[RoundRecord]]:
    def source(number: int) -> list[RoundRecord]:
        with closing(Journal(path, read_only=True)) as journal:
            return records_after(journal, number)

    return source


def records_after(journal: Journal, number: int) -> list[RoundRecord]:
    """The next fused rounds after round `number`."""
    return [_record(journal, row) for row in journal.closed_after(number, AT_ONCE)]


def _record(journal: Journal, row: RoundRow) -> RoundRecord:
    updates, report = journal.updates(row.number), journal.report(row.number)
    invited = journal.invitations(row.number)
    metrics: dict[str, float] = {}
    answered = {update.device for update in updates}
    fetched = _fetched(journal, updates, {i.device: i.model for i in invited if i.device in answered})
    for model in journal.fused_in(row.number):
        mine = [update for update in updates if update.prototype == model.prototype]
        own = [update.metrics["accuracy"] for update in mine if "accuracy" in update.metrics]
        figures = {
            **model.metrics,
            "devices": len(mine),
            "bytes_up": sum(update.size for update in mine),
            "bytes_down": sum(fetched.get(update.device, 0) for update in mine),
            **({"own_accuracy": sum(own) / len(own), "own_worst": min(own), "own_best": max(own)} if own else {}),
        }
        metrics |= of_prototype(model.prototype, figures)
    closed = row.opened if row.closed is None else row.closed
    screened = sum(bool(facts.get("screened")) for facts in report.get("devices", {}).values())
    metrics |= {
        **({} if row.buffer else {"devices/asked": len(invited), "devices/lost": len(invited) - len(answered)}),
        "devices/excluded": screened,
        "bytes/up": sum(update.size for update in updates),
        "bytes/down": sum(fetched.values()),
        "seconds/round": max(closed - row.opened, 0.0),
        **{f"seconds/{stage}": seconds for stage, seconds in report.get("seconds", {}).items()},
    }
    return RoundRecord(round=row.number, time=closed, metrics=metrics)


def _fetched(journal: Journal, updates: Sequence[UpdateRow], invited: Mapping[str, str]) -> dict[str, int]:
    """Bytes of the model that each device trained from, by its invitation or, in asynchronous rounds, by its job."""
    jobs = {update.device: journal.job(update.job) for update in updates if update.job}
    models = {**invited, **{device: job.model for device, job in jobs.items() if job is not None}}
    sizes = journal.models_of(models.values())
    return {device: sizes[model].size for device, model in models.items() if model in sizes}
