"""A board that enrols takes its own certificate, from its own fleet, and nothing else."""

import errno
import random
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from core.settings import replace
from edge_agent.config import AgentConfig, enrolled, read_agent_config
from edge_agent.enrolment import Enrolment, own_keys
from firmware_configs.identity.ca import Authority, new_key, open_authority
from firmware_configs.provision import authority_folder, provision
from tests.firmware_configs.fleets import PI, manifest
from wire.codec import encode_message
from wire.envelope import seal
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PrivateKey, generate_key, load_private_key
from wire.messages import Enrolled

pytestmark = pytest.mark.light


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    """The config of a kit that enrols, with its state below `tmp_path`."""
    provision(manifest(tmp_path, PI + 'enrol = "claim"\n'))
    path = tmp_path / "kits" / "pi-01" / "agent.toml"
    path.write_text(path.read_text().replace("/var/lib/edgestill", str(tmp_path / "state")))
    return read_agent_config(path, environ={})


@pytest.fixture
def board(config: AgentConfig) -> Enrolment:
    assert config.enrol is not None
    return Enrolment(config, config.enrol)


def issued(authority: Authority, board: Enrolment, name: str = "pi-01", *, own: bool = True) -> bytes:
    key = own_keys(board.config.private_key.parent)[0] if own else new_key()
    cert = authority.issue(name, key.public_key(), purpose="client", days=5)
    return cert.public_bytes(serialization.Encoding.DER)


def answer(tmp_path: Path, board: Enrolment, certificate: bytes = b"", **changes: str) -> bytes:
    fields = {"device": "pi-01", "keys": board.keys, "status": "approved", **changes}
    key: Ed25519PrivateKey = load_private_key(tmp_path / "aggregator.key")
    message = encode_message(Enrolled(certificate=certificate, **fields))
    return seal(message, key=key, kind="enrolled", sender=AGGREGATOR, fleet="garden")


def test_the_right_certificate_is_kept_and_former_identities_go(
    tmp_path: Path, config: AgentConfig, board: Enrolment
) -> None:
    former = config.enrol.identity.with_name("former")
    former.mkdir()
    (former / "tls.key").write_text("old")
    board._heard(answer(tmp_path, board, status="waiting"))
    assert not enrolled(config.enrol)
    with open_authority(authority_folder(tmp_path / "kits"), "garden") as authority:
        board._heard(answer(tmp_path, board, issued(authority, board)))
    assert enrolled(config.enrol)
    assert [path.name for path in former.parent.iterdir()] == [config.enrol.identity.name]


@pytest.mark.parametrize("what", ["another key", "another name", "another authority", "no certificate", "other keys"])
def test_a_certificate_that_is_not_its_own_is_not_kept(
    tmp_path: Path, config: AgentConfig, board: Enrolment, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    folder = tmp_path / "other" if what == "another authority" else authority_folder(tmp_path / "kits")
    with open_authority(folder, "garden", days=10) as authority:
        name = "pi-02" if what == "another name" else "pi-01"
        certificate = issued(authority, board, name, own=what != "another key")
    said = answer(tmp_path, board, b"junk" if what == "no certificate" else certificate)
    if what == "other keys":
        said = answer(tmp_path, board, certificate, keys="0" * 64)
    board._heard(said)
    assert not enrolled(config.enrol)
    assert ("enrolment: the certificate is" in caplog.text) is (what != "other keys")


def test_an_answer_that_the_aggregator_did_not_sign_is_not_heard(
    tmp_path: Path, config: AgentConfig, board: Enrolment, caplog: pytest.LogCaptureFixture
) -> None:
    with open_authority(authority_folder(tmp_path / "kits"), "garden") as authority:
        message = Enrolled(device="pi-01", keys=board.keys, status="approved", certificate=issued(authority, board))
    forged = seal(encode_message(message), key=generate_key(), kind="enrolled", sender=AGGREGATOR, fleet="garden")
    board._heard(forged)
    assert not enrolled(config.enrol)
    assert "the signature is not that of the expected key" in caplog.text


def test_a_board_that_is_started_again_asks_with_the_same_keys(config: AgentConfig, board: Enrolment) -> None:
    assert Enrolment(config, config.enrol).keys == board.keys
    other = replace(config.enrol, identity=config.enrol.identity.with_name("new"))
    assert Enrolment(config, other).keys != board.keys


def test_certificates_and_answers_that_make_no_sense_end_nothing(
    tmp_path: Path, config: AgentConfig, board: Enrolment, caplog: pytest.LogCaptureFixture
) -> None:
    """Mutated, but signed by the real aggregator; X.509 that is of no version, no curve, no length among them."""
    rng = random.Random(0)
    with open_authority(authority_folder(tmp_path / "kits"), "garden") as authority:
        certificate = issued(authority, board)
    for _ in range(500):
        raw = bytearray(certificate)
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0x84, 0xFF, rng.randrange(256)])
        mutant = bytes(raw[: rng.choice([len(raw), rng.randrange(len(raw))])])
        if mutant != certificate:
            board._heard(answer(tmp_path, board, mutant))
    for payload in (b"\x00", b"\xff" * 100, bytes(20_000)):
        board._heard(payload)
    assert not enrolled(config.enrol)
    assert "please report it" not in caplog.text
    board._heard(answer(tmp_path, board, certificate))
    assert enrolled(config.enrol)


def test_a_disk_that_does_not_take_the_certificate_ends_nothing(
    tmp_path: Path, config: AgentConfig, board: Enrolment, caplog: pytest.LogCaptureFixture, monkeypatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_authority(authority_folder(tmp_path / "kits"), "garden") as authority:
        said = answer(tmp_path, board, issued(authority, board))
    with monkeypatch.context() as patched:
        patched.setattr("edge_agent.enrolment.write_atomic", full)
        board._heard(said)
    assert not enrolled(config.enrol)
    assert "No space left on device; free some space" in caplog.text
    board._heard(said)
    assert enrolled(config.enrol)


@pytest.mark.parametrize("name", ["tls.key", "device.key"])
@pytest.mark.parametrize("damage", [b"", b"garbage", bytes(range(256)), None])
def test_a_damaged_key_of_a_board_that_is_not_enrolled_yet_is_set_aside_and_made_anew(
    config: AgentConfig, board: Enrolment, caplog: pytest.LogCaptureFixture, name: str, damage: bytes | None
) -> None:
    path = config.enrol.identity / name
    path.unlink()
    if damage is None:
        path.mkdir()
    else:
        path.write_bytes(damage)
        path.chmod(0o600)
    caplog.clear()
    assert Enrolment(config, config.enrol).keys != board.keys
    (line,) = [record.getMessage() for record in caplog.records]
    assert str(path) in line
    assert "set aside in damaged/" in line
