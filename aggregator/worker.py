"""`python -m aggregator.worker`: fusion in a process of its own, so that the service stays prompt and small.

It reads one JSON request per line from stdin and writes one JSON answer per line to stdout; it ends with its stdin.
It reads the journal, reads and writes blobs, and keeps nothing in between: killed at any moment, it is started again
and comes to the same bits.

    {"task": "start", "prototypes": ["cnn:w1"]}   builds the first models of these prototypes
    {"task": "fuse", "round": 3}                  fuses round 3, every prototype that has updates
    answer: {"task": ..., "models": [{"digest": ..., "prototype": ..., "metrics": {...}, ...}]} or {"error": "..."}

The first line is the setup: state folder, key, fleet, seed, task.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, TextIO

import torch

from aggregator.blobs import Blobs
from aggregator.fuse import Fuser, StoredGroup
from aggregator.fusion.types import Memory
from aggregator.journal import Journal
from aggregator.recipes import find_recipe
from aggregator.rows import UpdateRow
from aggregator.validation import load_validation
from models.spec import PrototypeSpec, parse_prototype
from wire.crashpoints import reach
from wire.errors import EdgestillError
from wire.keys import load_private_key
from wire.messages import ModelHeader

__all__ = ["Worker", "main"]


class Worker:
    """Answers requests; `setup` is the first line."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.setup = setup
        self.state = Path(setup["state"])
        shape, classes = tuple(setup["input_shape"]), setup["classes"]
        validation = None
        if setup["validation"] is not None:
            x, y = load_validation(Path(setup["validation"]), shape, classes)
            validation = torch.from_numpy(x), torch.from_numpy(y)
        key = load_private_key(setup["key"])
        self.fuser = Fuser(Blobs(self.state / "blobs"), key, setup["fleet"], validation)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked."""
        if request["task"] == "start":
            made = [self.fuser.start(self._spec(name), self.setup["seed"]) for name in request["prototypes"]]
        else:
            made = self._fuse(int(request["round"]))
        return {**request, "models": [_facts(digest, header) for digest, header in made]}

    def _fuse(self, number: int) -> list[tuple[str, ModelHeader]]:
        journal = Journal(self.state / "journal.db", read_only=True)
        try:
            recipe = next(row.recipe for row in journal.rounds() if row.number == number)
            models = {i.prototype: i.model for i in journal.invitations(number)}
            groups: dict[str, list[UpdateRow]] = defaultdict(list)
            for row in journal.updates(number):
                groups[row.prototype].append(row)
        finally:
            journal.close()
        reach("worker-fusing")
        stored = [
            StoredGroup(spec=self._spec(name), base=models[name], rows=rows) for name, rows in sorted(groups.items())
        ]
        made, _ = self.fuser.fuse(find_recipe(recipe), number, stored, Memory())
        return made

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


def main() -> None:
    """Serve until stdin ends."""
    answers = _claim_stdout()
    torch.set_num_threads(1)  # one thread gives the same sums everywhere
    worker: Worker | None = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if worker is None:
                worker = Worker(request)
                answer: dict[str, Any] = {"task": "setup"}
            else:
                answer = worker.answer(request)
        except EdgestillError as error:
            answer = {"error": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _claim_stdout() -> TextIO:
    """stdout is for answers alone: what a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
