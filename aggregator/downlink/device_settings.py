"""Desired and reported settings of devices.

A device's desired settings are those that differ from its agent.toml. They have a version, which increases with every
change and is never below the time, so that a new journal still has later versions than the previous one. Desired
settings are retained at the broker, signed, one message per device; reports of devices are stored in the journal.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec

from aggregator.downlink.signed import Publish, SignedMessages
from aggregator.intake.contained import Complaints
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from core.errors import EdgestillError
from wire.codec import encode_message
from wire.keys import Ed25519PrivateKey
from wire.messages import Desired, Reported

__all__ = ["SET", "DesiredSettings", "ask_for", "settings_facts"]

log = logging.getLogger("edgestill.aggregator")
SET = "set"  # the verb of the command


def ask_for(device: str, changes: dict[str, str | None]) -> str:
    """The argument of the command that changes a device's settings; None unsets one."""
    return json.dumps({"device": device, "changes": changes})


def settings_facts(journal: Journal, device: str) -> dict[str, Any]:
    """Desired and reported settings of a device, each None if there are none."""
    desired, reported = (json.loads(journal.get(f"{what}:{device}", "null")) for what in ("desired", "reported"))
    return {"desired": desired, "reported": reported, "settings": _state(desired, reported)}


def _state(desired: dict[str, Any] | None, reported: dict[str, Any] | None) -> str:
    """The status in a word or two."""
    if desired is None:
        return ""
    if reported is None or reported["version"] < desired["version"]:
        return "not reported"
    if reported["status"] == "rolled-back":
        return "rolled back"
    return f"{len(reported['refused'])} refused" if reported["refused"] else "applied"


class DesiredSettings(SignedMessages):
    """Publishes desired settings once per connection, and whenever they change."""

    def __init__(self, publish: Publish, *, key: Ed25519PrivateKey, fleet: str, journal: Journal) -> None:
        super().__init__(publish, key=key, fleet=fleet, journal=journal)
        rows = journal.db.execute("SELECT substr(key, 9), value FROM meta WHERE key LIKE 'desired:%'").fetchall()
        self._wanted = {device: Desired(device=device, **json.loads(value)) for device, value in rows}
        self._unsaid = set(self._wanted)
        self._unkept: dict[str, str] = {}  # reports of devices, not yet in the journal
        self._complaints = Complaints()

    def forget(self) -> None:
        """A new connection: nothing is published yet."""
        self._unsaid = set(self._wanted)

    def say(self) -> None:
        """Publish pending settings."""
        for device in sorted(self._unsaid):
            if not self._send(device, "desired", self._wanted[device]):
                return
            self._unsaid.discard(device)

    def run(self, command: Command, now: float) -> None:
        """Change desired settings by command; returns their version."""
        try:
            asked = json.loads(command.argument)
            desired = self._changed(asked["device"], asked["changes"], now)
            encode_message(desired)  # refuses settings that no device would accept
        except EdgestillError as error:
            with self._journal.transaction():
                self._journal.answer(command.id, str(error), failed=True)
            return
        kept = {"version": desired.version, "settings": dict(desired.settings)}
        with self._journal.transaction():
            self._journal.put(f"desired:{desired.device}", json.dumps(kept))
            self._journal.answer(command.id, str(desired.version))
        log.info(
            "settings %d of %r: %s",
            desired.version,
            desired.device,
            kept["settings"] or "as its agent.toml",
            extra={"device": desired.device},
        )
        self._wanted[desired.device] = desired
        self._unsaid.add(desired.device)

    def heard(self, device: str, reported: Reported) -> None:
        """A device reports; `keep` writes it to the journal. A repetition changes nothing."""
        facts = msgspec.to_builtins(msgspec.structs.asdict(reported))
        text = json.dumps(facts, sort_keys=True)
        if text in (self._unkept.get(device), self._journal.get(f"reported:{device}")):
            return
        self._unkept[device] = text
        if self._complaints.new(device, reported.status):
            log.info("device %r: settings %d %s", device, reported.version, reported.status, extra={"device": device})
        for reason in filter(None, (*reported.refused.values(), reported.reason)):
            if self._complaints.new(device, reason):
                log.warning("device %r: settings %d: %s", device, reported.version, reason, extra={"device": device})

    def keep(self) -> None:
        """Write the reports of devices to the journal."""
        if not self._unkept:
            return
        with self._journal.transaction():
            for device, text in self._unkept.items():
                self._journal.put(f"reported:{device}", text)
        self._unkept.clear()

    def _changed(self, device: str, changes: dict[str, str | None], now: float) -> Desired:
        before = self._wanted.get(device)
        settings = {**(before.settings if before else {}), **changes}
        version = max(int(now), before.version + 1 if before else 1)
        kept = {name: text for name, text in sorted(settings.items()) if text is not None}
        return Desired(device=device, version=version, settings=kept)
