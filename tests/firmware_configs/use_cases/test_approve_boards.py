"""Requests of the journal are decided, and the decision left for the aggregator."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pytest
from cryptography import x509

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.storage.journal import Journal
from core.errors import ConfigError
from firmware_configs.manifest import Manifest, load_manifest
from firmware_configs.provision import provision
from firmware_configs.use_cases.approve_boards import approve_as_they_come, decide, requests
from tests.firmware_configs.fleets import FLEET, PI, write_manifest
from tests.firmware_configs.test_approve import board_of
from tests.wire.test_enrolment import Board
from wire.enrolment import fingerprint, read_request, shown

pytestmark = pytest.mark.light
DEVICES = FLEET + '[devices]\nkeys_dir = "kits/_fleet/devices"\n'
GROUPS = PI + 'enrol = "approve"\n' + PI.replace('"pi"', '"auto"') + 'enrol = "claim"\n'


@pytest.fixture
def made(tmp_path: Path) -> tuple[Manifest, FleetConfig]:
    path = write_manifest(tmp_path, GROUPS, fleet=DEVICES)
    found = load_manifest(path, environ={})
    provision(found)
    return found, load_fleet_config(path, environ={})


def asks(made: Manifest, fleet: FleetConfig, device: str) -> Board:
    """As the aggregator keeps it."""

    board = board_of(made, device)
    data = board.ask("garden")
    authority = x509.load_pem_x509_certificate((made.out / "_fleet/authority/ca.pem").read_bytes())
    now = datetime.now(timezone.utc)
    request = read_request(data, fleet="garden", device=device, authority=authority, now=now)
    entry = {"status": "waiting", "asked": 0.0, "keys": request.keys, "claim": request.claim}
    fleet.state.mkdir(exist_ok=True)
    with closing(Journal(fleet.state / "journal.db")) as journal:
        journal.put(f"enrol:{device}", json.dumps({**entry, "request": base64.b64encode(data).decode()}))
    return board


def orders(fleet: FleetConfig) -> list[dict]:
    with closing(Journal(fleet.state / "journal.db")) as journal:
        return [json.loads(command.argument) for command in journal.commands()]


def test_a_board_is_certified_if_its_fingerprint_is_the_one_given(made: tuple[Manifest, FleetConfig]) -> None:
    manifest, fleet = made
    board = asks(manifest, fleet, "pi-01")
    keys = fingerprint(board.tls.public_key(), board.signing.public_key())
    assert requests(fleet)["pi-01"]["keys"] == keys
    with pytest.raises(ConfigError, match="is it your board"):
        decide(fleet, manifest.out, "pi-01", days=30, fingerprint="0" * 20)
    assert orders(fleet) == []
    done = decide(fleet, manifest.out, "pi-01", days=30, fingerprint=shown(keys))
    assert (done.device, done.fingerprint, done.revoked) == ("pi-01", shown(keys), 0)
    assert done.facts()["answer"] == "the aggregator is not running: it will enrol when it starts"
    (order,) = orders(fleet)
    assert (order["device"], order["keys"], "certificate" in order) == ("pi-01", keys, True)


def test_a_refused_board_gets_no_certificate(made: tuple[Manifest, FleetConfig]) -> None:
    manifest, fleet = made
    asks(manifest, fleet, "pi-01")
    decide(fleet, manifest.out, "pi-01", days=30, refuse=True)
    (order,) = orders(fleet)
    assert order["reason"] == "refused by the operator"
    with pytest.raises(ConfigError, match="'pi-02' has no pending request"):
        decide(fleet, manifest.out, "pi-02", days=30)


class _OverError(Exception):
    pass


def test_claims_that_are_enough_are_approved_as_they_come(made: tuple[Manifest, FleetConfig]) -> None:
    manifest, fleet = made
    said: list[str] = []
    steps = iter(["asks", "nothing new"])  # before the first step there is no journal

    def rest() -> None:
        match next(steps, None):
            case "asks":
                asks(manifest, fleet, "pi-01")
                asks(manifest, fleet, "auto-01")
            case None:
                raise _OverError

    decisions = []

    def watch() -> None:
        for decision in approve_as_they_come(fleet, manifest.out, days=30, report=said.append, rest=rest):
            decisions.append(decision.device)

    with pytest.raises(_OverError):
        watch()
    assert decisions == ["auto-01"]
    assert said == ["pi-01: waiting for `edgestill device approve pi-01`"]  # told once
