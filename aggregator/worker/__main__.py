"""`python -m aggregator.worker`: fusion in a separate process, so that the service stays responsive and small.

It reads one JSON request per line from stdin and writes one JSON answer per line to stdout; it exits when stdin is
closed. It reads the journal, reads and writes blobs, and is stateless: killed at any moment, it is restarted and
produces the same bits.

    {"task": "start", "prototypes": ["cnn:w1"]}   builds the first models of these prototypes
    {"task": "fuse", "round": 3}                  fuses round 3, every prototype that has updates
    {"task": "examine", "round": 3}               finds the updates of round 3 that cannot be fused
    answer: {"task": ..., "models": [{"digest": ..., "prototype": ..., "metrics": {...}, ...}]}
            of a fused round also "report": {"devices": {...}, "seconds": {...}}, and "notes": [...] for the log
            of an examination {"task": ..., "culprits": {device: reason}}
            {"error": "..."}; with "storage": true it is a disk error, and a retry may help; "traceback" of an error
            raised by a user's part, or unexpected

The first line is the setup: state folder, key, fleet, seed, task, prototypes, fusion.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import torch

from aggregator.fusion.memory import Memories
from aggregator.fusion.types import Fused, Memory
from aggregator.recipes.catalogue import Recipe
from aggregator.recipes.overrides import read_recipe
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.worker.cluster import Cluster
from aggregator.worker.examine import examine
from aggregator.worker.fuse_round import Fuser, StoredGroup, round_groups
from aggregator.worker.server_inputs import load_labelled, make_server
from core.crashpoints import reach
from core.errors import EdgestillError
from core.processes.pipes import claim_stdout, write_json
from models.spec import PrototypeSpec, parse_prototype
from wire.keys import load_private_key
from wire.messages import ModelHeader, Task

__all__ = ["Worker", "main"]


class Worker:
    """Answers requests; `setup` is the first line."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.setup = setup
        self.state = Path(setup["state"])
        shape, classes = tuple(setup["input_shape"]), setup["classes"]
        task = msgspec.convert(setup.get("task"), Task | None)
        test = None if setup["validation"] is None else load_labelled(setup["validation"], shape, classes, task)
        server = make_server(setup["fusion"], self._spec(setup["prototypes"][0]), setup["seed"], test, task)
        key = load_private_key(setup["key"])
        self.fuser = Fuser(Blobs(self.state / "blobs"), key, setup["fleet"], test, server, task)
        self.memories = Memories(self.state / "memory")
        self.cluster = Cluster(setup["fusion"])

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute a request."""
        if request["task"] == "start":
            made = [self.fuser.start(self._spec(name), self.setup["seed"]) for name in request["prototypes"]]
            return {**request, "models": [_facts(digest, header) for digest, header in made]}
        round_number = int(request["round"])
        if request["task"] == "examine":
            recipe, groups, memory, _ = self._round(round_number)
            return {**request, "culprits": examine(self.fuser, recipe, round_number, groups, memory)}
        return {**request, **self._fuse(round_number)}

    def _round(self, round_number: int) -> tuple[Recipe, list[StoredGroup], Memory, int]:
        """The inputs of a round, and the number of the last closed round before it."""
        journal = Journal(self.state / "journal.db", read_only=True)
        try:
            row, before = journal.round(round_number), journal.last_closed(before=round_number)
            assert row is not None
            recipe, last = read_recipe(row.recipe), 0 if before is None else before.number
            groups = round_groups(journal, round_number, self._spec)
        finally:
            journal.close()
        return recipe, groups, self.memories.read(last), last

    def _fuse(self, round_number: int) -> dict[str, Any]:
        def fuse(processes: int) -> tuple[list[tuple[str, ModelHeader]], Fused, int]:
            recipe, groups, memory, last = self._round(round_number)  # read again: parts may have written to the memory
            return *self.fuser.on(processes).fuse(recipe, round_number, groups, memory), last

        reach("worker-fusing")
        (made, fused, last), notes = self.cluster.run(fuse)
        self.memories.write(round_number, fused.memory)
        self.memories.forget(last)
        report = {"devices": {name: asdict(r) for name, r in fused.devices.items()}, "seconds": dict(fused.seconds)}
        return {"models": [_facts(digest, header) for digest, header in made], "report": report, "notes": notes}

    def _spec(self, name: str) -> PrototypeSpec:
        setup = self.setup
        return PrototypeSpec(*parse_prototype(name), tuple(setup["input_shape"]), setup["classes"], setup["latent"])


def _facts(digest: str, header: ModelHeader) -> dict[str, Any]:
    return {
        "digest": digest,
        "prototype": header.prototype,
        "round": header.round,
        "recipe": header.recipe,
        "parents": header.parents,
        "metrics": header.metrics,
    }


def _traceback_of_others(error: EdgestillError) -> dict[str, str]:
    """The traceback of an error that was raised outside of our packages; empty for our own errors."""
    cause = error.__cause__
    if cause is None or isinstance(cause, EdgestillError | OSError):
        return {}
    return {"traceback": "".join(traceback.format_exception(cause))}


def main() -> None:
    """Serve until stdin ends."""
    answers = claim_stdout()
    torch.set_num_threads(1)  # one thread gives the same sums everywhere
    setup = json.loads(sys.stdin.readline() or "{}")
    worker: Worker | None = None
    for line in sys.stdin:
        try:
            if worker is None:
                worker = Worker(setup)
            answer = worker.answer(json.loads(line))
        except (OSError, sqlite3.Error) as error:
            answer = {"error": str(error), "storage": True}
        except EdgestillError as error:
            answer = {"error": str(error), **_traceback_of_others(error)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        try:
            write_json(answers, answer)
        except BrokenPipeError:  # the service was killed: there is no reader
            os._exit(0)


if __name__ == "__main__":
    main()
