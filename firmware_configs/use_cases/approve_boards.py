"""Approves or refuses boards that have generated their own keys.

Their requests are in the aggregator's journal. The decision is made here, with the key of the fleet's authority, and
stored for the aggregator, which sends it to the board.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.enrolment import ENROL, enrol_requests
from aggregator.operator_client import ask_service
from aggregator.storage.journal import Journal
from core.errors import ConfigError, EdgestillError
from firmware_configs.approve import approve, claims
from wire.enrolment import shown

__all__ = ["Decision", "approve_as_they_come", "decide", "requests"]

LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one board."""

    device: str
    fingerprint: str
    answer: str  # of the aggregator
    revoked: int  # number of its previous certificates

    def facts(self) -> dict[str, Any]:
        """The decision as JSON."""
        return asdict(self)


def requests(fleet: FleetConfig) -> dict[str, dict[str, Any]]:
    """The requests of boards by device: `keys`, `status`, `asked`, `claim`, `request`."""
    with closing(Journal(fleet.state / "journal.db", read_only=True)) as journal:
        return enrol_requests(journal)


def decide(
    fleet: FleetConfig, kits: Path, device: str, *, days: int, fingerprint: str | None = None, refuse: bool = False
) -> Decision:
    """Certify the board for `days`, if it has the fingerprint, or refuse it; `kits` is the folder of provision."""
    entry = requests(fleet).get(device)
    if entry is None:
        raise ConfigError(f"{device!r} has no pending request; `edgestill device approve` lists all")
    revoked = 0
    if refuse:
        order = {"device": device, "keys": entry["keys"], "reason": "refused by the operator"}
    else:
        done = approve(device, entry, kits=kits, fleet=fleet.fleet, days=days, fingerprint=fingerprint)
        order = {"device": device, "keys": done.keys, "certificate": base64.b64encode(done.certificate).decode()}
        revoked = done.revoked
    answer = ask_service(fleet, ENROL, json.dumps(order))
    return Decision(device, shown(entry["keys"]), answer, revoked)


def approve_as_they_come(
    fleet: FleetConfig,
    kits: Path,
    *,
    days: int,
    report: Callable[[str], None],
    rest: Callable[[], None] = lambda: time.sleep(LOOK_S),
) -> Iterator[Decision]:
    """Approve boards whose claim suffices, indefinitely; `report` is called once for each board not approved."""
    passed: set[str] = set()
    while True:
        try:
            asked = requests(fleet)
        except ConfigError:  # the aggregator has not been started yet
            asked = {}
        waiting = {d: e for d, e in asked.items() if e["status"] == "waiting" and e["keys"] not in passed}
        modes = claims(kits, fleet.fleet) if waiting else {}
        for device, entry in waiting.items():
            passed.add(entry["keys"])
            if modes.get(entry["claim"]) != "claim":
                report(f"{device}: waiting for `edgestill device approve {device}`")
                continue
            try:
                yield decide(fleet, kits, device, days=days)
            except EdgestillError as error:
                report(f"{device}: {error}")
        rest()
