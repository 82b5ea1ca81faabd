"""The [broker] table."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from transport.config import BrokerConfig, TlsConfig, broker_config

pytestmark = pytest.mark.light
WHERE = "a.toml [broker]"


def config(
    table: dict[str, Any], base: Path = Path(), environ: dict[str, str] | None = None, **more: Any
) -> BrokerConfig:
    return broker_config(table, WHERE, base, environ=environ or {}, **more)


def test_an_empty_table_is_the_broker_on_this_machine() -> None:
    assert config({}) == BrokerConfig() == BrokerConfig(host="127.0.0.1", port=1883, keepalive_s=30, protocol="auto")
    assert str(config({})) == "127.0.0.1:1883"


def test_tls_files_lie_beside_the_config_and_move_the_default_port(tmp_path: Path) -> None:
    for name in ("ca.crt", "d.crt", "d.key"):
        (tmp_path / name).touch()
    table = {"host": "b", "tls": {"ca": "ca.crt", "cert": "d.crt", "key": "d.key"}}
    found = config(table, tmp_path)
    assert found.tls == TlsConfig(ca=tmp_path / "ca.crt", cert=tmp_path / "d.crt", key=tmp_path / "d.key")
    assert found.port == 8883
    assert config({**table, "port": 1}, tmp_path).port == 1


def test_the_environment_and_flags_come_before_the_file() -> None:
    environ = {"EDGESTILL_BROKER_HOST": "env", "EDGESTILL_BROKER_PORT": "2"}
    found = config({"host": "file", "port": 1, "keepalive_s": 7}, environ=environ, flags={"port": 3})
    assert (found.host, found.port, found.keepalive_s) == ("env", 3, 7)


def test_a_password_can_lie_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("s3cret\n")
    assert config({"username": "u", "password_file": "pw"}, tmp_path).password == "s3cret"


def test_a_password_is_never_printed() -> None:
    found = BrokerConfig(username="u", password="s3cret")
    assert "s3cret" not in f"{found!r} {found}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"hots": "b"}, "a.toml [broker]: unknown key 'hots'; did you mean 'host'?"),
        ({"port": 0}, "a.toml [broker]: 'port' is 0, expected a whole number from 1 to 65535"),
        ({"protocol": "4"}, "a.toml [broker]: 'protocol' is '4'; known: auto 3.1.1 5"),
        ({"keepalive_s": 0}, "a.toml [broker]: 'keepalive_s' is 0, expected a whole number from 1 to 65535"),
        (
            {"host": "mqtt://b"},
            "a.toml [broker]: broker host 'mqtt://b'; give only a name or an address, such as broker.example",
        ),
        ({"password": "x"}, "a.toml [broker]: broker password without a username; MQTT needs both"),
        (
            {"username": "u", "password": "x", "password_file": "pw"},
            "a.toml [broker]: 'password' and 'password_file' are both given; keep one",
        ),
        ({"tls": {}}, "a.toml [broker.tls]: 'ca' is missing; give a path"),
        ({"tls": {"ca": "nope"}}, "a.toml [broker.tls]: 'ca': there is no file nope"),
        ({"tls": True}, "a.toml [broker]: 'tls' is True, expected a table"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(table)
    assert str(caught.value) == message


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    for name in ("ca", "cert"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=r"^a.toml \[broker.tls\]: TLS needs both 'cert' and 'key'"):
        config({"tls": {"ca": "ca", "cert": "cert"}}, tmp_path)


def test_an_unreadable_password_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read 'password_file'"):
        config({"username": "u", "password_file": "nope"}, tmp_path)
