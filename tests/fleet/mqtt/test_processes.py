"""Child processes: their environment, their logs, their end."""

from pathlib import Path

import pytest

from core.errors import RoundError
from fleet.mqtt.processes import Processes
from tests.transport.events import eventually


def wait(processes: Processes, name: str) -> None:
    assert eventually(lambda: processes.ended(name), 120)


def test_a_child_that_fails_is_told_with_its_last_line(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("agent", ["agent", "run", "--config", "none.toml"])
    wait(processes, "agent")
    with pytest.raises(RoundError, match=r"agent ended with exit code 3: edgestill: none.toml: No such file"):
        processes.check()


CONFIG = """
agent = { fleet = "f", device = "pi", state_dir = "state" }
keys = { private = "pi.key", aggregator = "aggregator.pub" }
model = { prototype = "cnn:w1" }
data = { path = "data.npz" }
broker = { port = 1000 }
"""


def test_settings_of_the_shell_reach_no_child_and_those_of_the_caller_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESTILL_BROKER_PORT", "1001")
    (tmp_path / "a.toml").write_text(CONFIG)
    processes = Processes(tmp_path)
    processes.start("without", ["config", "check", "a.toml"])
    processes.start("with", ["config", "check", "a.toml"], {"EDGESTILL_BROKER_PORT": "1002"})
    for name, port in (("without", 1000), ("with", 1002)):
        wait(processes, name)
        assert f"port = {port}" in (tmp_path / f"{name}.log").read_text()


def test_stop_ends_a_service_and_kill_does_so_at_once(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("one", ["broker", "--port", "0"])
    processes.start("two", ["broker", "--port", "0"])
    one = tmp_path / "one.log"
    assert eventually(lambda: "127.0.0.1" in one.read_text(), 120), one.read_text()
    processes.kill("two")
    assert processes.running["two"].returncode == -9
    processes.stop()
    assert processes.running["one"].returncode == 0
