"""Executes the actions of asynchronous rounds: in the journal, and in the log."""

from __future__ import annotations

import logging

from aggregator.downlink.instructions import side_artifact_of
from aggregator.round_log import some
from aggregator.rounds.events import Action, AskAgain, DropBuffer, EndJobs, Give, GivenJob, Lapse
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import JobRow
from core.crashpoints import reach

__all__ = ["follow_job_action", "record_job_action"]

log = logging.getLogger("edgestill.aggregator")


def record_job_action(action: Action, journal: Journal, blobs: Blobs, now: float) -> None:
    """The changes of an action to the journal, inside a transaction."""
    match action:
        case Give(device, job):
            _record_job(device, job, journal, blobs, now)
        case Lapse(jobs):
            journal.set_jobs(jobs, "lapsed")
        case EndJobs(jobs):
            journal.set_jobs(jobs, "ended")
        case DropBuffer(reason):
            journal.drop_buffer(reason)
        case AskAgain(number, deadline):
            journal.set_round(number, deadline=deadline)


def follow_job_action(action: Action) -> None:
    """The other effects of an action, once it is durable."""
    match action:
        case Give(device, job):
            reach("aggregator-job-given")
            log.debug("job %d: %r trains from version %d", job.number, device, job.version)
        case Lapse(jobs):
            log.info("jobs %s are late: their places are given to others", some([str(job) for job in jobs]))
        case EndJobs(jobs):
            log.debug("jobs %s have ended", some([str(job) for job in jobs]))
        case DropBuffer(reason):
            log.warning("the updates in the buffer are not fused: %s", reason)
        case AskAgain(number):
            log.info("round %d: devices that gave up may be asked again", number, extra={"round": number})


def _record_job(device: str, job: GivenJob, journal: Journal, blobs: Blobs, now: float) -> None:
    model, row = journal.current()[job.prototype], journal.round(job.round)
    assert row is not None, "opened before"
    blobs.check(model.digest, model.size)  # without its model the job could only fail
    journal.give_job(
        JobRow(
            number=job.number,
            round=job.round,
            version=job.version,
            device=device,
            prototype=job.prototype,
            model=model.digest,
            side_artifact=side_artifact_of(row, journal),
            given=now,
            deadline=job.deadline,
        )
    )
