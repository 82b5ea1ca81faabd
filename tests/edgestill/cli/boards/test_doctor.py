"""`edgestill doctor`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from firmware_configs.boards import board
from firmware_configs.doctor.board import look
from firmware_configs.doctor.findings import Finding
from firmware_configs.use_cases.diagnose_board import Diagnosis
from tests.edgestill.cli.typed import run

pytestmark = pytest.mark.light


def test_the_doctor_tells_of_this_machine_and_of_a_config(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firmware_configs.doctor.board.import_fault", lambda name, waiting: "")  # seconds for torch
    code, out, _ = run(capsys, "doctor", "--config", tmp_path / "agent.toml", "--json")
    facts = json.loads(out)
    assert code == 1
    assert {"level": "failure", "what": "config"}.items() <= facts["findings"][-1].items()
    assert {"memory", "disk", "python"} <= {finding["what"] for finding in facts["findings"]}
    _, out, _ = run(capsys, "doctor")
    assert "python: 3." in out


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("warning", 0), ("failure", 1)])
def test_only_a_failure_makes_it_fail_and_every_finding_is_a_line(
    level: str, code: int, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = replace(look(Path("/")), model="A Pi [4]", board=board("rpi-4"))
    found = Diagnosis(facts, (Finding(level, "disk", "3 GB [free]"),))  # type: ignore[arg-type]
    monkeypatch.setattr("firmware_configs.use_cases.diagnose_board.diagnose_board", lambda config, waiting: found)
    ended, out, _ = run(capsys, "doctor")
    first, second, third = out.splitlines()
    assert ended == code
    assert first.startswith("A Pi [4], ")
    assert second.split() == [level, "disk:", "3", "GB", "[free]"]
    assert third.startswith("suits    ")
    assert third.endswith(f"batches of {board('rpi-4').batch_size}")


def test_what_it_waits_for_is_told_beside_the_result(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(name: str, waiting: Callable[[str], None]) -> str:
        waiting(f"importing {name}")
        return ""

    monkeypatch.setattr("firmware_configs.doctor.board.import_fault", slow)
    _, out, err = run(capsys, "doctor", "--json")
    assert "edgestill: importing numpy ...\n" in err
    assert json.loads(out)["findings"]
