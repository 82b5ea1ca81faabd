"""What systemd is told."""

import os
import socket
from pathlib import Path

import pytest

from core.systemd import Heartbeat, notify, watchdog_seconds

pytestmark = pytest.mark.light


def test_a_word_arrives_at_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        assert notify("READY=1", {"NOTIFY_SOCKET": str(path)})
        assert listener.recv(100) == b"READY=1"


def test_an_abstract_socket_is_spelled_with_an_at_sign() -> None:
    name = f"edgestill-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        assert notify("WATCHDOG=1", {"NOTIFY_SOCKET": f"@{name}"})
        assert listener.recv(100) == b"WATCHDOG=1"


def test_nobody_listening_is_no_error(tmp_path: Path) -> None:
    assert not notify("READY=1", {})
    assert not notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "absent")})


def test_the_watchdog_is_fed_twice_as_often_as_asked() -> None:
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000"}) == 15.0
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}) == 15.0
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}) is None
    assert watchdog_seconds({"WATCHDOG_USEC": "soon"}) is None
    assert watchdog_seconds({}) is None


def test_the_heart_beats_when_it_is_due_and_never_unasked(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.setblocking(False)
        heart = Heartbeat({"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "30000000"})
        heart.beat(1000.0)
        assert (listener.recv(100), heart.due) == (b"WATCHDOG=1", 1015.0)
        heart.beat(1014.9)
        with pytest.raises(BlockingIOError):
            listener.recv(100)
        heart.beat(1015.0)
        assert listener.recv(100) == b"WATCHDOG=1"
        idle = Heartbeat({"NOTIFY_SOCKET": str(path)})
        idle.beat(1000.0)
        with pytest.raises(BlockingIOError):
            listener.recv(100)
    assert idle.due == float("inf")
