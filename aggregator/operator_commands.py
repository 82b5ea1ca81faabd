"""Commands that other processes leave in the journal: pause, resume, stop, skip, revoke, allow,
rollback, prune, pin, unpin.

Each works in every phase of a round. Its answer, its changes and the resulting actions of the round engine are recorded
in one transaction.
"""

from __future__ import annotations

import logging

import msgspec

from aggregator.conductor import Conductor
from aggregator.config.tables import ModelsConfig
from aggregator.intake.transfers import Uploads
from aggregator.rounds.events import Allowed, Pause, Resume, Revoked, RolledBack, Skip, Stop
from aggregator.storage.models import roll_back, stored_model
from aggregator.storage.rows import Command
from core.errors import ConfigError, EdgestillError

__all__ = ["run_command"]

log = logging.getLogger("edgestill.aggregator")
HOLDS = {"pause": "paused", "resume": "running", "stop": "stopped"}
EVENTS: dict[str, type[Pause] | type[Resume] | type[Stop]] = {"pause": Pause, "resume": Resume, "stop": Stop}


def run_command(command: Command, conductor: Conductor, uploads: Uploads) -> None:
    """Execute a command and answer it."""
    log.info("command: %s %s", command.verb, command.argument)
    try:
        _run(command, conductor, uploads)
    except EdgestillError as error:
        with conductor.journal.transaction():
            conductor.journal.answer(command.id, str(error), failed=True)


def _run(command: Command, conductor: Conductor, uploads: Uploads) -> None:
    journal, name = conductor.journal, command.argument
    if command.verb in HOLDS:
        hold, event = HOLDS[command.verb], EVENTS[command.verb]()

        def put_hold() -> None:
            journal.put("hold", hold)
            journal.answer(command.id, hold)

        conductor.feed(event, put_hold)
        if command.verb != "pause":
            conductor.fusing.operator_said(event)
    elif command.verb == "skip":
        if not conductor.state.in_round:
            raise ConfigError("no round is open; there is nothing to skip")
        conductor.feed(Skip(), lambda: journal.answer(command.id, f"round {conductor.number} skipped"))
    elif command.verb in ("revoke", "allow"):
        revoked = command.verb == "revoke"

        def note_revoked() -> None:
            journal.note_device(name, revoked=int(revoked))
            journal.answer(command.id, "revoked" if revoked else "allowed")

        conductor.feed(Revoked(name) if revoked else Allowed(name), note_revoked)
        uploads.drop_device(name)
    elif command.verb == "prune":
        policy = msgspec.json.decode(name, type=ModelsConfig)

        def note_pruned(count: int, size: int) -> None:
            journal.answer(command.id, f"{count} models pruned, {size:,} bytes")

        conductor.prune(policy, note_pruned)
        conductor.blobs.collect(journal.named_blobs(conductor.config.keep_rounds))
    elif command.verb in ("pin", "unpin"):
        model = stored_model(journal, name)
        with journal.transaction():
            journal.set_pin(model.digest, command.verb == "pin")
            journal.answer(command.id, f"model {model.number} of {model.prototype}: {command.verb}ned")
    elif command.verb == "rollback":
        conductor.feed(RolledBack(), lambda: _roll_back(command, conductor))
    else:
        raise ConfigError(f"unknown command {command.verb!r}")


def _roll_back(command: Command, conductor: Conductor) -> None:
    row = roll_back(
        conductor.journal,
        conductor.blobs,
        command.argument,
        key=conductor.key,
        fleet=conductor.config.fleet,
        number=conductor.number,
        now=conductor.now(),
    )
    conductor.journal.answer(command.id, row.digest)
