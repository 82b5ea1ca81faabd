"""Where predictions are served."""

import socket
from pathlib import Path

import pytest

from core.errors import ConfigError
from edge_agent.predict.address import clear_socket, parse_address

pytestmark = pytest.mark.light


def test_loopback_and_unix_sockets_need_no_flag() -> None:
    assert parse_address("127.0.0.1:9000") == ("127.0.0.1", 9000)
    assert parse_address("[::1]:0") == ("::1", 0)
    assert parse_address("unix:/run/p.sock") == Path("/run/p.sock")


def test_other_addresses_need_one() -> None:
    with pytest.raises(ConfigError, match="--allow-remote"):
        parse_address("0.0.0.0:9000")
    assert parse_address("0.0.0.0:9000", remote=True) == ("0.0.0.0", 9000)


@pytest.mark.parametrize("text", ["", "9000", ":9000", "127.0.0.1:", "127.0.0.1:70000", "localhost:x", "unix:"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--serve"):
        parse_address(text)


def test_a_path_longer_than_a_socket_may_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 100 bytes"):
        parse_address("unix:/" + "x" * 100)


def test_a_dead_socket_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "p.sock"
    clear_socket(path)  # there is none
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(path))
        served.listen()
        with pytest.raises(ConfigError, match="another process serves it"):
            clear_socket(path)
    clear_socket(path)
    assert not path.exists()
    path.write_text("notes")
    with pytest.raises(ConfigError, match="not a socket"):
        clear_socket(path)
    assert path.read_text() == "notes"
