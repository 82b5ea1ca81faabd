"""How far a device is with its work, as it reports it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from edge_agent.protocol.download import Download
from edge_agent.protocol.upload import Upload
from wire.board_reports import Stage
from wire.messages import Job, Offer

__all__ = ["Progress", "progress_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The stage of the work, and chunks or steps done of those in total; a total of 0 is not known."""

    round: int = 0  # of a job; 0: no job
    stage: Stage = "idle"
    done: int = 0
    total: int = 0


def progress_of(
    stage: Stage, work: Job | Offer | None, downloads: Collection[Download], uploads: Collection[Upload]
) -> Progress:
    """The work, or without any the upload that has the least left; steps of training are known to the child alone."""
    if work is not None:
        have = [download.progress for download in downloads]
        done, total = sum(pair[0] for pair in have), sum(pair[1] for pair in have)
        return Progress(round=work.round if isinstance(work, Job) else 0, stage=stage, done=done, total=total)
    if not uploads:
        return Progress()
    upload = min(uploads, key=lambda one: one.left)
    count = upload.spooled.count
    return Progress(round=upload.spooled.round, stage="uploading", done=count - upload.left, total=count)
