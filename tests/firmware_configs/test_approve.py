"""Certifying boards: the authority's ledger decides, whatever the aggregator's journal says."""

import base64
from pathlib import Path

import pytest
from cryptography import x509

from aggregator.config.fleet import load_fleet_config
from core.errors import ConfigError, EdgestillError, EnvelopeError, SignatureError
from edge_agent.config import enrolled, read_agent_config
from edge_agent.enrolment import Enrolment, own_keys
from firmware_configs.approve import Approved, approve, claims
from firmware_configs.doctor.config import check_config
from firmware_configs.identity.ca import open_authority
from firmware_configs.identity.identities import Identity, make_tls
from firmware_configs.kits.kit import load_kit
from firmware_configs.manifest import Manifest
from firmware_configs.provision import authority_folder, provision
from tests.firmware_configs.fleets import FLEET, PI, manifest
from tests.wire.test_enrolment import Board
from wire.enrolment import claim_name, fingerprint, name_of, shown
from wire.keys import load_public_key, public_key_hex

pytestmark = pytest.mark.light
TABLES = '[devices]\nkeys_dir = "kits/_fleet/devices"\n'


def enrolling(folder: Path, mode: str = "approve", **parts: str) -> Manifest:
    return manifest(folder, PI + f'enrol = "{mode}"\n', fleet=FLEET + TABLES, **parts)


def board_of(made: Manifest, device: str = "pi-01") -> Board:
    kit = load_kit(made.out / device, load_public_key(made.out / "fleet-kit.pub"))
    return Board(Identity(kit.files["tls/claim.pem"].data, kit.files["tls/claim.key"].data), device)


def entry_of(board: Board) -> dict:
    return {"status": "waiting", "request": base64.b64encode(board.ask("garden")).decode()}


def certify(made: Manifest, board: Board, **other: str) -> Approved:
    return approve(board.device, entry_of(board), kits=made.out, fleet="garden", days=30, **other)


def test_a_kit_that_enrols_holds_a_claim_and_no_key_of_the_device(tmp_path: Path) -> None:
    made = enrolling(tmp_path)
    done = provision(made)
    assert (done.made, done.unclaimed, done.ending) == (["pi-01", "pi-02"], ["pi-01", "pi-02"], [])
    kit = load_kit(tmp_path / "kits/pi-01", load_public_key(tmp_path / "kits/fleet-kit.pub"))
    assert {name for name, file in kit.files.items() if b"PRIVATE KEY" in file.data} == {"tls/claim.key"}
    assert not (tmp_path / "kits/_fleet/devices/pi-01.pub").exists()
    config = read_agent_config(tmp_path / "kits/pi-01/agent.toml", environ={})
    assert config.enrol is not None
    assert config.private_key.parent == config.enrol.identity
    assert config.broker.tls.key == config.enrol.identity / "tls.key"
    assert not enrolled(config.enrol)
    assert provision(made).kept == ["pi-01", "pi-02"]
    assert provision(made, renew=["pi-01"]).renewed == ["pi-01"]
    again = read_agent_config(tmp_path / "kits/pi-01/agent.toml", environ={})
    assert again.enrol.identity != config.enrol.identity  # another claim, another identity


def test_an_approved_board_is_certified_and_known_to_the_aggregator(tmp_path: Path) -> None:
    made = enrolling(tmp_path)
    provision(made)
    board = board_of(made)
    keys = fingerprint(board.tls.public_key(), board.signing.public_key())
    done = certify(made, board, fingerprint=shown(keys))
    cert = x509.load_der_x509_certificate(done.certificate)
    assert (name_of(cert.subject), cert.public_key(), done.keys, done.revoked) == (
        "pi-01",
        board.tls.public_key(),
        keys,
        0,
    )
    known = load_fleet_config(tmp_path / "fleet.toml", environ={}).devices
    assert {name: public_key_hex(key) for name, key in known.items()} == {
        "pi-01": public_key_hex(board.signing.public_key())
    }
    assert provision(made).unclaimed == ["pi-02"]
    assert certify(made, board).revoked == 1  # a crash may have lost the first: the same keys, certified again


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("used", SignatureError, "its claim was used with other keys before"),
        ("revoked", SignatureError, "its claim was revoked"),
        ("unknown", SignatureError, "its claim is not in the authority's ledger"),
        ("fingerprint", ConfigError, "is it your board"),
        ("short fingerprint", ConfigError, "is it your board"),
        ("enrolled", ConfigError, "there is nothing to approve"),
        ("expired", EnvelopeError, "its claim ended on"),
    ],
)
def test_what_must_not_be_certified_is_refused_and_nothing_is_issued(
    tmp_path: Path, what: str, error: type[Exception], said: str
) -> None:
    made = enrolling(tmp_path)
    provision(made)
    board, other, entry = board_of(made), {}, {}
    with open_authority(authority_folder(made.out), "garden") as authority:
        if what == "revoked":
            assert len(authority.revoke("pi-01")) == 1
        elif what == "unknown":
            authority.issued = [issued for issued in authority.issued if issued.device != "pi-01"]
        elif what == "expired":
            facts = {"device": "pi-01", "enrol": "approve"}
            board.claim = make_tls(authority, claim_name("pi-01"), purpose="client", days=-0.5, **facts)
        authority.save()
    if what == "used":
        certify(made, board)
        board = board_of(made)
    elif "fingerprint" in what:
        other = {"fingerprint": "0123 4567 89ab cdef" if what == "fingerprint" else "0"}
    elif what == "enrolled":
        entry = {"status": "enrolled"}
    before = (authority_folder(made.out) / "issued.json").read_bytes()
    asked = {**entry_of(board), **entry}
    with pytest.raises(error, match=said):
        approve("pi-01", asked, kits=made.out, fleet="garden", days=30, **other)
    assert (authority_folder(made.out) / "issued.json").read_bytes() == before


def test_a_new_claim_takes_the_former_certificate_back(tmp_path: Path) -> None:
    made = enrolling(tmp_path)
    provision(made)
    certify(made, board_of(made))
    provision(made, renew=["pi-01"])
    assert certify(made, board_of(made)).revoked == 1
    crl = x509.load_pem_x509_crl((made.out / "_fleet/broker/crl.pem").read_bytes())
    assert len(list(crl)) == 2  # the certificate, and the claim that it was issued for


def test_the_ledger_says_whose_claim_is_enough(tmp_path: Path) -> None:
    made = enrolling(tmp_path, "claim")
    provision(made)
    assert list(claims(made.out, "garden").values()) == ["claim", "claim"]


def test_the_doctor_shows_the_fingerprint_of_a_board_that_waits(tmp_path: Path) -> None:
    provision(enrolling(tmp_path))
    path = tmp_path / "kits" / "pi-01" / "agent.toml"
    path.write_text(path.read_text().replace("/var/lib/edgestill", str(tmp_path / "state")))
    config = read_agent_config(path, environ={})
    assert "start the agent" in _finding(path)
    config.enrol.identity.mkdir(parents=True)
    tls, signing = own_keys(config.enrol.identity)
    assert shown(fingerprint(tls.public_key(), signing.public_key())) in _finding(path)
    assert Enrolment(config, config.enrol).keys == fingerprint(tls.public_key(), signing.public_key())


def _finding(path: Path) -> str:
    (finding,) = [
        finding for finding in check_config(read_agent_config(path), path.parent) if finding.what == "enrolment"
    ]
    assert finding.level == "warning"
    return finding.said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('key = "tls/claim.key"', ""), r"\[enrol\]: 'key': there is no file None"),
        (("[keys]", '[keys]\nprivate = "mine.key"'), "the board makes its own keys"),
    ],
)
def test_a_claim_beside_other_keys_or_without_its_own_is_refused(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    provision(enrolling(tmp_path))
    path = tmp_path / "kits" / "pi-01" / "agent.toml"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(ConfigError, match=said):
        read_agent_config(path, environ={})


@pytest.mark.parametrize("request_", ["not base64!", None, "", "AAAA", base64.b64encode(bytes(500)).decode()])
def test_a_request_that_is_damaged_in_the_journal_is_told_in_one_line(tmp_path: Path, request_: str | None) -> None:
    made = enrolling(tmp_path)
    provision(made)
    entry = {"status": "waiting", "request": request_}
    with pytest.raises(EdgestillError, match=r"pi-01") as caught:
        approve("pi-01", entry, kits=made.out, fleet="garden", days=30)
    assert str(caught.value).isprintable()
