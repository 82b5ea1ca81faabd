"""Commands that other processes leave in the journal: pause, resume, stop, revoke, allow, rollback."""

from __future__ import annotations

import logging

from aggregator.conductor import Conductor
from aggregator.events import Allowed, Pause, Resume, Revoked, RolledBack, Stop
from aggregator.registry import roll_back
from aggregator.rounds import Phase
from aggregator.rows import Command
from aggregator.uploads import Uploads
from wire.errors import ConfigError, EdgestillError

__all__ = ["VERBS", "run_command"]

log = logging.getLogger("edgestill.aggregator")
VERBS = ("pause", "resume", "stop", "revoke", "allow", "rollback")
HOLDS = {"pause": "paused", "resume": "running", "stop": "stopped"}
EVENTS: dict[str, type[Pause] | type[Resume] | type[Stop]] = {"pause": Pause, "resume": Resume, "stop": Stop}


def run_command(command: Command, conductor: Conductor, uploads: Uploads) -> None:
    """Do it and answer, in one transaction where it changes the journal; a rollback waits until fusing is over."""
    if command.verb == "rollback" and conductor.state.phase in (Phase.FUSING, Phase.STARTING):
        return
    log.info("command: %s %s", command.verb, command.argument)
    try:
        _run(command, conductor, uploads)
    except EdgestillError as error:
        with conductor.journal.transaction():
            conductor.journal.answer(command.id, f"error: {error}")


def _run(command: Command, conductor: Conductor, uploads: Uploads) -> None:
    journal, name = conductor.journal, command.argument
    if command.verb in HOLDS:
        with journal.transaction():
            journal.put("hold", HOLDS[command.verb])
            journal.answer(command.id, HOLDS[command.verb])
        conductor.feed(EVENTS[command.verb]())
        if command.verb == "resume":
            conductor.resumed()
    elif command.verb in ("revoke", "allow"):
        revoked = command.verb == "revoke"
        with journal.transaction():
            journal.note_device(name, revoked=int(revoked))
            journal.answer(command.id, "revoked" if revoked else "allowed")
        conductor.feed(Revoked(name) if revoked else Allowed(name))
        uploads.drop_device(name)
    elif command.verb == "rollback":
        _roll_back(command, conductor)
    else:
        raise ConfigError(f"unknown command {command.verb!r}")


def _roll_back(command: Command, conductor: Conductor) -> None:
    journal = conductor.journal
    with journal.transaction():
        row = roll_back(
            journal,
            conductor.blobs,
            command.argument,
            key=conductor.key,
            fleet=conductor.config.fleet,
            number=conductor.number,
            now=conductor.now(),
        )
        journal.answer(command.id, row.digest)
    conductor.feed(RolledBack())
