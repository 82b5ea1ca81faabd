"""TLS with client certificates: who is let in, and what the others are told."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.settings import replace
from tests.brokers import DEFAULTS_2_1, Mosquitto
from tests.certificates import Authority
from tests.transport.events import connected, messages, wait_for
from transport.config import BrokerConfig, TlsConfig
from transport.link import Connected, Disconnected, Link, Received
from transport.tls import tls_context

pytestmark = pytest.mark.light


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def secure(tmp_path: Path, authority: Authority) -> Mosquitto:
    with Mosquitto(tmp_path / "secure", tls=authority) as started:
        yield started


def why(config: BrokerConfig) -> str:
    """Why this link cannot connect."""
    with Link(config, client_id="a", filters=["t"]) as link:
        event = link.next_event(60)
        assert isinstance(event, Disconnected), event
        return event.reason


@pytest.mark.broker
@pytest.mark.parametrize("protocol", ["auto", "3.1.1"])
def test_with_our_certificate_everything_works_also_large_messages(secure: Mosquitto, protocol: str) -> None:
    link = connected(Link(replace(secure.config, protocol=protocol), client_id="a", filters=["t"]))
    with_tls_records = bytes(range(256)) * 7000  # 1.8 MB in records of 16 KiB: poll() does not see the rest of one
    for _ in range(5):
        assert link.publish("t", with_tls_records)
    assert messages(link, 5) == [Received("t", with_tls_records, False)] * 5
    link.stop()


@pytest.mark.broker
def test_each_wrong_certificate_has_its_own_reason(secure: Mosquitto, authority: Authority, tmp_path: Path) -> None:
    good = secure.config
    assert good.tls is not None
    stranger = Authority(tmp_path / "stranger", "another authority")
    cert, key = stranger.issue("device")
    old_cert, old_key = authority.issue("device", days=-1)

    def with_tls(tls: TlsConfig | None) -> BrokerConfig:
        return replace(good, tls=tls)

    assert why(with_tls(replace(good.tls, ca=stranger.ca))).startswith("the broker's certificate is not valid: ")
    missing = why(with_tls(TlsConfig(ca=authority.ca)))
    assert missing == "the broker wants a client certificate; give 'cert' and 'key' in [broker.tls]"
    expired = why(with_tls(TlsConfig(ca=authority.ca, cert=old_cert, key=old_key)))
    assert expired == "our client certificate has expired; make a new one"
    unknown = why(with_tls(TlsConfig(ca=authority.ca, cert=cert, key=key)))
    assert unknown == "the broker does not trust the CA of our client certificate"
    wrong_name = why(replace(good, host="localhost"))  # the certificate says 127.0.0.1
    assert "Hostname mismatch" in wrong_name
    plain = why(with_tls(None))
    assert plain == "the broker closed the connection before it answered; does it expect TLS?"


@pytest.mark.broker
def test_the_brokers_expired_certificate_is_told(tmp_path: Path, authority: Authority) -> None:
    cert, key = authority.issue("127.0.0.1", days=-1)
    with Mosquitto(
        tmp_path / "m", [*DEFAULTS_2_1, f"cafile {authority.ca}", f"certfile {cert}", f"keyfile {key}"]
    ) as m:
        config = BrokerConfig(port=m.port, tls=TlsConfig(ca=authority.ca))
        expired = "the broker's certificate is not valid: certificate has expired; this machine's clock says "
        assert why(config).startswith(expired)


@pytest.mark.broker
def test_tls_towards_a_plain_broker_is_told(mosquitto: Mosquitto, authority: Authority) -> None:
    for protocol in ("auto", "3.1.1"):
        reason = why(replace(mosquitto.config, tls=TlsConfig(ca=authority.ca), protocol=protocol))
        assert "TLS" in reason
        assert "port" in reason


@pytest.mark.broker
def test_a_renewed_certificate_counts_from_the_next_connection_on(
    secure: Mosquitto, authority: Authority, tmp_path: Path
) -> None:
    cert, key = tmp_path / "d.crt", tmp_path / "d.key"
    for path, source in zip((cert, key), authority.issue("device", days=-1), strict=True):
        path.write_bytes(source.read_bytes())
    with Link(
        replace(secure.config, tls=TlsConfig(ca=authority.ca, cert=cert, key=key)), client_id="a", filters=[]
    ) as a:
        assert "expired" in wait_for(a, Disconnected).reason
        for path, source in zip((cert, key), authority.issue("device"), strict=True):
            path.write_bytes(source.read_bytes())
        wait_for(a, Connected)


@pytest.mark.broker
def test_a_password_is_asked_for_and_checked(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    # mosquitto_passwd -c -b passwords pi-07 secret, written by hand: PBKDF2, SHA-512, 101 rounds
    import base64
    import hashlib

    salt = b"salt-of-12-b"
    digest = hashlib.pbkdf2_hmac("sha512", b"secret", salt, 101)
    passwords.write_text(f"pi-07:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n")
    lines = [*DEFAULTS_2_1, f"password_file {passwords}"]
    with Mosquitto(tmp_path / "m", lines, anonymous=False) as m:
        for protocol in ("auto", "3.1.1"):
            config = BrokerConfig(port=m.port, username="pi-07", password="secret", protocol=protocol)
            connected(Link(config, client_id="a", filters=["t"])).stop()
            reason = why(replace(config, password="wrong"))
            assert "check 'username' and 'password' in [broker]" in reason
            assert "wrong" not in reason


def test_files_that_are_no_certificates_are_refused_before_connecting(tmp_path: Path, authority: Authority) -> None:
    cert, key = authority.issue("device")
    _, other_key = authority.issue("other")
    empty = tmp_path / "empty"
    empty.touch()
    for tls, message in [
        (TlsConfig(ca=empty), f"cannot use {empty} as 'ca'"),
        (TlsConfig(ca=tmp_path / "gone"), "No such file"),
        (TlsConfig(ca=authority.ca, cert=empty, key=key), "as 'cert' and 'key'"),
        (TlsConfig(ca=authority.ca, cert=cert, key=other_key), "the key does not belong to the certificate"),
    ]:
        with pytest.raises(ConfigError) as caught:
            Link(BrokerConfig(tls=tls), client_id="a", filters=[])
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
    tls_context(TlsConfig(ca=authority.ca, cert=cert, key=key))
