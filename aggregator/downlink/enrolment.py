"""Boards that request their certificates: requests are checked, stored and answered here.

The service itself issues no certificates: it does not have the authority's key. `edgestill device approve`, run with
that key, does, and leaves the certificate in the journal for the service to publish. One request per device is stored,
under `enrol:DEVICE`; a claim is bound to the first keys that use it, and refused with other keys.
"""

from __future__ import annotations

import base64
import json
import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aggregator.downlink.signed import Publish, SignedMessages
from aggregator.intake.contained import Complaints
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from core.errors import ConfigError, EdgestillError
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey, public_key_from_hex, public_key_hex
from wire.messages import Enrolled

if TYPE_CHECKING:
    from wire.enrolment import Request

__all__ = ["ENROL", "Enrolments", "enrol_requests"]

log = logging.getLogger("edgestill.aggregator")
ENROL = "enrol"  # the verb of the command
LOOKS = 20  # requests per topic and minute that are checked: a board asks every few seconds
ALL_LOOKS = 2000  # of all topics, a minute


def enrol_requests(journal: Journal) -> dict[str, dict[str, Any]]:
    """The requests of boards, by device: `status` is waiting, approved, enrolled or refused."""
    rows = journal.db.execute("SELECT substr(key, 7), value FROM meta WHERE key LIKE 'enrol:%' ORDER BY key").fetchall()
    return {device: json.loads(value) for device, value in rows}


class Enrolments(SignedMessages):
    """Requests in, answers out; `learn(device, key)` is called for every approved board."""

    def __init__(
        self,
        publish: Publish,
        *,
        key: Ed25519PrivateKey,
        fleet: str,
        journal: Journal,
        ca: Path | None,
        learn: Callable[[str, Ed25519PublicKey], None],
    ) -> None:
        super().__init__(publish, key=key, fleet=fleet, journal=journal)
        self._ca, self._learn = ca, learn
        self._known = enrol_requests(journal)
        self._unsaid = self._answered()
        self._complaints = Complaints()
        self._looks = _Looks()

    def forget(self) -> None:
        """A new connection: nothing is published yet."""
        self._unsaid = self._answered()

    def say(self) -> None:
        """Publish answers for boards that may reconnect for them; clear those of boards that are online."""
        for device in sorted(self._unsaid):
            entry = self._known[device]
            if not self._send(device, "enrolled", None if entry["status"] == "enrolled" else _answer(device, entry)):
                return
            self._unsaid.discard(device)

    def heard(self, device: str, payload: bytes, *, revoked: bool, now: float) -> None:
        """Handle a board's request. Problems are logged, and reported to the board if possible.

        The sender has no known key, and checking a request costs three signatures and two certificates, so checks are
        rate-limited per topic and in total; excess requests are ignored.
        """
        from wire.enrolment import read_request  # X.509: few fleets need it, and those seldom

        if not self._looks.take(device, now):
            return
        try:
            if revoked:
                raise ConfigError(f"enrolment of {device!r}: the device was revoked")
            when = datetime.fromtimestamp(now, timezone.utc)
            request = read_request(payload, fleet=self._fleet, device=device, authority=self._authority(), now=when)
        except EdgestillError as error:
            self._log(device, str(error))
            return
        before = self._known.get(device)
        if before is None or (before["claim"] != request.claim and tuple(before["age"]) < request.age):
            self._take(device, request, payload, now)
        elif before["keys"] != request.keys:
            self._refuse(device, request, before)
            return
        if self._known[device]["status"] == "waiting":
            self._tell(device, self._known[device])
        else:
            self._unsaid.add(device)  # it may have missed the answer

    def _take(self, device: str, request: Request, payload: bytes, now: float) -> None:
        """The first request of a claim, or of a newer one: it waits for the operator."""
        from wire.enrolment import shown

        entry = {
            "keys": request.keys,
            "key": public_key_hex(request.signing),
            "claim": request.claim,
            "age": request.age,
            "asked": now,
            "status": "waiting",
            "request": base64.b64encode(payload).decode(),
        }
        self._keep(device, entry)
        log.info("device %r asks to be enrolled; fingerprint %s", device, shown(request.keys), extra={"device": device})

    def _refuse(self, device: str, request: Request, first: dict[str, Any]) -> None:
        """Refuse a board with other keys than those of the `first` request."""
        from wire.enrolment import shown

        same = first["claim"] == request.claim
        reason = "this claim was used with other keys" if same else "a newer claim is used"
        self._log(
            device,
            f"enrolment of {device!r} refused: {reason}: fingerprint {shown(request.keys)},"
            f" the first was {shown(first['keys'])}",
        )
        self._tell(device, {"keys": request.keys, "status": "refused", "reason": reason})

    def _tell(self, device: str, entry: dict[str, Any]) -> None:
        """Publish an answer that is not retained."""
        self._send(device, "enrolled", _answer(device, entry), retain=False)

    def run(self, command: Command) -> None:
        """Apply the operator's decision: {"device", "keys"} and a "certificate" (DER, base64) or a "reason"."""
        asked = json.loads(command.argument)
        device, entry = asked["device"], self._known.get(asked["device"])
        if entry is None or entry["keys"] != asked["keys"]:
            with self._journal.transaction():
                text = f"{device!r} has asked with other keys meanwhile; look again"
                self._journal.answer(command.id, text, failed=True)
            return
        approved = "certificate" in asked
        changes = {"certificate": asked["certificate"]} if approved else {"reason": asked["reason"]}
        status = "approved" if approved else "refused"
        self._keep(device, {**entry, "status": status, **changes}, command=command.id)
        if approved:
            self._learn(device, public_key_from_hex(entry["key"]))
        log.info("enrolment of %r: %s", device, status, extra={"device": device})
        self._unsaid.add(device)

    def online(self, device: str) -> None:
        """The device is online with its own identity: the answer can be cleared."""
        entry = self._known.get(device)
        if entry is not None and entry["status"] == "approved":
            kept = {name: value for name, value in entry.items() if name not in ("request", "certificate")}
            self._keep(device, {**kept, "status": "enrolled"})
            self._unsaid.add(device)

    def _answered(self) -> set[str]:
        return {device for device, entry in self._known.items() if entry["status"] in ("approved", "refused")}

    def _keep(self, device: str, entry: dict[str, Any], *, command: int | None = None) -> None:
        with self._journal.transaction():
            self._journal.put(f"enrol:{device}", json.dumps(entry))
            if command is not None:
                self._journal.answer(command, entry["status"])
        self._known[device] = entry

    def _authority(self) -> Any:
        from cryptography import x509

        if self._ca is None:
            raise ConfigError("a board asks to be enrolled, but [broker.tls] names no authority; serve it over TLS")
        try:
            return x509.load_pem_x509_certificate(self._ca.read_bytes())
        except (OSError, ValueError, x509.InvalidVersion) as error:
            raise ConfigError(f"{self._ca}: cannot be used: {error}") from None

    def _log(self, device: str, reason: str) -> None:
        if self._complaints.new(device, reason):  # a board repeats its request
            log.warning("%s", reason)


class _Looks:
    """Rate limit of checked requests, per topic and in total."""

    def __init__(self) -> None:
        self._minute = -1
        self._taken: Counter[str] = Counter()

    def take(self, device: str, now: float) -> bool:
        """Whether one more may be checked now."""
        minute = int(now // 60)
        if minute != self._minute:
            self._minute = minute
            self._taken.clear()
        if self._taken[device] >= LOOKS or self._taken.total() >= ALL_LOOKS:
            return False
        self._taken[device] += 1
        return True


def _answer(device: str, entry: dict[str, Any]) -> Enrolled:
    return Enrolled(
        device=device,
        keys=entry["keys"],
        status=entry["status"],
        certificate=base64.b64decode(entry.get("certificate", "")),
        reason=entry.get("reason", ""),
    )
