"""Event files for TensorBoard, written by the `tensorboard` package itself: it imports no torch, and says what failed.

Every process that follows a run writes a file of its own in the run's folder, which TensorBoard reads as one; a resumed
run's first event says from which round on older ones are void. Settings are hyperparameters (the tab HParams).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from aggregator.tracking.records import RoundRecord, TrackedRun, flat

__all__ = ["TensorBoard", "open_tensorboard"]

VERSION = "brain.Event:2"


def open_tensorboard(where: str, run: TrackedRun, token: str | None) -> TensorBoard:
    """The folder of the run below `where`; a run of the same name that was there before keeps its own."""
    folder = Path(token) if token is not None else _free(Path(where).expanduser().absolute() / run.name)
    tracker = TensorBoard(folder)
    if token is None:
        tracker.write(Event(summary=hparams_pb(flat(run.settings), trial_id=run.name)))
    return tracker


def _free(folder: Path) -> Path:
    """`folder`, or the first of folder-2, folder-3, ... that does not exist; it is created."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    number, wanted = 1, folder
    while True:
        try:
            wanted.mkdir()
        except FileExistsError:
            number += 1
            wanted = folder.with_name(f"{folder.name}-{number}")
        else:
            return wanted


class TensorBoard:
    """One event file."""

    def __init__(self, folder: Path) -> None:
        self.token = str(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{int(time.time()):010d}.edgestill.{os.getpid()}.{time.monotonic_ns()}"
        self._file = path.open("xb")
        self._records = RecordWriter(self._file)
        self._begun = False
        self.write(Event(file_version=VERSION))

    def write(self, event: Event) -> None:
        """Append an event; on return it is in the file."""
        event.wall_time = event.wall_time or time.time()
        self._records.write(event.SerializeToString())
        self._records.flush()

    def log(self, record: RoundRecord) -> None:
        """One event with all figures of the round."""
        if not self._begun:
            self.write(Event(step=record.round, session_log=SessionLog(status=SessionLog.START)))
            self._begun = True
        values = [Summary.Value(tag=name, simple_value=value) for name, value in record.metrics.items()]
        self.write(Event(wall_time=record.time, step=record.round, summary=Summary(value=values)))

    def close(self, *, complete: bool) -> None:
        """Close the file."""
        self._file.close()
