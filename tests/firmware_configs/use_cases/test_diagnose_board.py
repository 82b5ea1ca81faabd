"""A board is diagnosed from its files; what would stop an agent makes it unfit."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_configs.provision import provision
from firmware_configs.use_cases.diagnose_board import diagnose_board
from tests.brokers import free_port
from tests.firmware_configs.fleets import PI, manifest

pytestmark = pytest.mark.light


@pytest.fixture(autouse=True)
def packages_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing torch takes seconds, and is tested elsewhere."""
    monkeypatch.setattr("firmware_configs.doctor.board.import_fault", lambda name, waiting: "")


def board_at(root: Path, model: str, memory_kb: int) -> Path:
    for name, text in {
        "proc/device-tree/model": f"{model}\0",
        "proc/meminfo": f"MemTotal: {memory_kb} kB\n",
        "run/systemd/timesync/synchronized": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_known_board_tells_what_suits_it(tmp_path: Path) -> None:
    found = diagnose_board(root=board_at(tmp_path, "Raspberry Pi 5 Model B Rev 1.0", 8_245_504))
    facts = found.facts()
    assert facts["board"] == "rpi-5"
    assert facts["suits"] == list(found.suits) != []
    assert facts["findings"][0] == {"level": "ok", "what": "board", "said": "Raspberry Pi 5"}


def test_a_config_that_cannot_be_read_makes_it_unfit(tmp_path: Path) -> None:
    root = board_at(tmp_path / "root", "Raspberry Pi 5 Model B Rev 1.0", 8_245_504)
    found = diagnose_board(tmp_path / "agent.toml", root=root)
    assert (found.findings[-1].level, found.findings[-1].what) == ("failure", "config")
    assert not found.fit
    assert found.fit == all(finding["level"] != "failure" for finding in found.facts()["findings"])


def test_the_mode_of_the_config_is_the_one_that_is_checked(tmp_path: Path) -> None:
    """A board that could train whole networks, and is told to train its predictor alone, needs no torch."""
    (tmp_path / "cnn.onnx").write_bytes(b"a graph")
    light = PI + 'graph = "cnn.onnx"\n[group.settings.train]\nmode = "light"\n'
    made = manifest(tmp_path, light, provision=f"port = {free_port()}")
    provision(made)
    root = board_at(tmp_path / "root", "Raspberry Pi 4 Model B Rev 1.4", 3_900_000)
    whats = {finding.what for finding in diagnose_board(made.out / "pi-01/agent.toml", root=root).findings}
    assert "torch" not in whats
    assert {"packages", "config"} <= whats
    assert "torch" in {finding.what for finding in diagnose_board(root=root).findings}
