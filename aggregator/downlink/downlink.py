"""All that the aggregator publishes: models, instructions, settings, requests for logs, answers to enrolling boards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aggregator.downlink.device_settings import SET, DesiredSettings
from aggregator.downlink.enrolment import ENROL, Enrolments
from aggregator.downlink.log_requests import LOG, LogRequests
from aggregator.downlink.publisher import Publisher
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["Downlink"]


class Downlink:
    """One connection's publications; `publish(topic, payload, retain)` is False while there is no connection."""

    def __init__(
        self,
        publish: Callable[[str, bytes, bool], bool],
        *,
        key: Ed25519PrivateKey,
        fleet: str,
        journal: Journal,
        blobs: Blobs,
        tails: Path,
        ca: Path | None,
        learn: Callable[[str, Ed25519PublicKey], None],
    ) -> None:
        """`tails` is the folder of devices' logs, `ca` the authority that certifies boards at enrolment.

        `learn` is called with approved boards.
        """
        self.publisher = Publisher(publish, key=key, fleet=fleet, blobs=blobs, journal=journal)
        self.desired = DesiredSettings(publish, key=key, fleet=fleet, journal=journal)
        self.log_requests = LogRequests(publish, key=key, fleet=fleet, journal=journal, folder=tails)
        self.enrolments = Enrolments(publish, key=key, fleet=fleet, journal=journal, ca=ca, learn=learn)

    def forget(self) -> None:
        """A new connection: nothing is published yet."""
        self.publisher.forget()
        self.desired.forget()
        self.enrolments.forget()

    def say(self) -> None:
        """Publish pending settings and answers; models and instructions are derived from the round."""
        self.desired.say()
        self.enrolments.say()

    def run(self, command: Command, now: float) -> bool:
        """Execute a command of the operator about settings, enrolment or logs; False if it is about something else."""
        if command.verb == SET:
            self.desired.run(command, now)
        elif command.verb == ENROL:
            self.enrolments.run(command)
        elif command.verb == LOG:
            self.log_requests.run(command, now)
        return command.verb in (SET, ENROL, LOG)
