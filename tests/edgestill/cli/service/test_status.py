"""`edgestill aggregator`, `status`, `device` and `model` on a journal, as a person types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.failed_installs import FailedInstalls
from aggregator.status import only_service, write_status
from aggregator.storage.journal import Journal
from aggregator.storage.rows import data_text
from edgestill.cli.service.status import device_row
from tests.aggregator.journals import a_round, asked
from tests.aggregator.scripted import write_fleet
from tests.edgestill.cli.typed import run
from transport.config import BrokerConfig
from wire.messages import DataState, Installing


def test_status_tells_all_of_a_fleet_whose_aggregator_is_down(config: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, _ = run(capsys, "status", "--config", config)
    assert code == 0
    assert "aggregator NOT running" in out
    assert "rounds 1 of 2 done" in out
    assert "round 1 closed: 1 of 1 answered" in out
    head, row = (next(line for line in out.splitlines() if word in line) for word in ("float weights", "75.0 %"))
    assert (head.index("accuracy"), head.index("float weights")) == (row.index("75.0 %"), row.index("87.5 %"))
    assert "pi-0" in out
    code, out, _ = run(capsys, "status", "--config", config, "--json")
    facts = json.loads(out)
    assert (facts["running"], facts["rounds_completed"], facts["models"]["mlp:fp32"]["round"]) == (False, 1, 1)


def test_status_and_device_list_show_weights_scores_and_who_was_left_out(
    config: Path, capsys: pytest.CaptureFixture
) -> None:
    journal = Journal(load_fleet_config(config).state / "journal.db")
    journal.note_device("pi-1", status="online")
    odd = {"weight": 0.0, "score": None, "screened": "accuracy 0.050 is below chance"}
    journal.add_report(1, {"devices": {"pi-0": {"weight": 0.5, "score": 0.125, "screened": None}, "pi-1": odd}})
    journal.close()
    for command in (["status"], ["device", "list"]):
        _, out, _ = run(capsys, *command, "--config", config)
        assert "50.0 %" in out
        assert "12.5 %" in out
        assert "excluded" in out
    _, out, _ = run(capsys, "status", "--config", config)
    assert "excluded from the last round: pi-1: accuracy 0.050 is below chance" in " ".join(out.split())


def test_status_and_device_list_name_who_was_capped(config: Path, capsys: pytest.CaptureFixture) -> None:
    journal = Journal(load_fleet_config(config).state / "journal.db")
    claim = {"claimed": 2**53, "counted": 270, "labels": None}
    journal.add_report(1, {"devices": {"pi-0": {"weight": 0.18, "score": None, "screened": None, "capped": claim}}})
    journal.close()
    for command in (["status"], ["device", "list"]):
        _, out, _ = run(capsys, *command, "--config", config)
        assert re.search(r"18\.0 %,\s+capped", out)
    _, out, _ = run(capsys, "status", "--config", config)
    words = "capped in the last round: pi-0: claimed 9,007,199,254,740,992 examples, counted for 270"
    assert words in " ".join(out.split())
    _, out, _ = run(capsys, "status", "--config", config, "--json")
    assert json.loads(out)["devices"][0]["fused"]["capped"] == claim


def test_status_and_device_list_show_who_is_over_his_budget(config: Path, capsys: pytest.CaptureFixture) -> None:
    state = load_fleet_config(config).state
    write_status(state, {"connected": True, "limited": {"pi-0": 321}})
    with only_service(state):
        for command in (["status"], ["device", "list"]):
            _, out, _ = run(capsys, *command, "--config", config)
            assert "limited" in out  # the table may break "online, limited" in two
        _, out, _ = run(capsys, "status", "--config", config)
        assert "over its budget: pi-0: 321 messages dropped unread" in " ".join(out.split())
    _, out, _ = run(capsys, "status", "--config", config)
    assert "limited" not in out


def test_status_of_a_running_aggregator_without_a_broker_says_so(config: Path, capsys: pytest.CaptureFixture) -> None:
    with only_service(load_fleet_config(config).state):
        _, out, _ = run(capsys, "status", "--config", config)
    assert "aggregator running, no connection to the broker" in out


def test_before_the_first_start_commands_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_fleet(tmp_path, BrokerConfig(), ["pi-0"])
    for args in (["status"], ["aggregator", "pause"], ["model", "list"]):
        code, _, err = run(capsys, *args, "--config", path)
        assert code == 3
        assert "there is no journal; has the aggregator of this fleet been started?" in " ".join(err.split())
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("command", ["aggregator", "status", "device", "model"])
def test_help_imports_no_torch(command: str) -> None:
    call = f"_run(['{command}', '--help'], False)"
    code = f"import sys; from edgestill.cli.main import _run; {call}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


def test_a_board_whose_installer_has_failed_is_named_with_the_reason(
    capsys: pytest.CaptureFixture, config: Path
) -> None:
    journal = Journal(load_fleet_config(config).state / "journal.db")
    installs = FailedInstalls(journal, lambda: 5.0)
    installs.heard("pi-1", Installing(number=1, reason="312 MB are free in /opt\x1b[31m"), online=False)
    installs.keep(at_once=True)
    journal.note_device("pi-1", seen=5.0)
    journal.close()
    for command in (["status"], ["device", "list"]):
        code, text, _ = run(capsys, *command, "-c", config)
        assert code == 0
        assert "pi-1: installing: 312 MB are free in /opt" in text
        assert "\x1b[31m" not in text
        assert re.search(r"^ *pi-1 +installing ", text, re.MULTILINE), text
    for command in (["status"], ["device", "list"]):
        _, text, _ = run(capsys, *command, "-c", config, "--json")
        facts = json.loads(text)
        devices = facts["devices"] if isinstance(facts, dict) else facts
        assert [d["installing"] for d in devices if d["id"] == "pi-1"] == ["312 MB are free in /opt\x1b[31m"]


def test_devices_that_have_given_up_are_named_with_the_reason(capsys: pytest.CaptureFixture, config: Path) -> None:
    journal = Journal(load_fleet_config(config).state / "journal.db")
    journal.open_round(a_round(2), asked("pi-0"))
    journal.add_failure(2, "pi-0", "training diverged: weights are\nNaN")
    journal.close()
    code, text, _ = run(capsys, "status", "-c", config)
    assert code == 0
    assert "round 2: 1 of 1 devices lost: pi-0: training diverged: weights are NaN" in text
    code, text, _ = run(capsys, "device", "list", "-c", config)
    assert "failed" in text
    assert "pi-0: training diverged: weights are NaN" in text
    code, text, _ = run(capsys, "device", "list", "-c", config, "--json")
    assert [device["problem"] for device in json.loads(text)] == ["training diverged: weights are\nNaN", ""]


def test_what_devices_say_of_their_samples_is_shown(capsys: pytest.CaptureFixture, config: Path) -> None:
    journal = Journal(load_fleet_config(config).state / "journal.db")
    waits = DataState(
        waiting="waiting for samples in /p: 3 of 20", rejected=2, reason="a.png: cut\x1b short", unlabeled=4
    )
    journal.note_device("pi-0", status="online", data=data_text(waits))
    journal.note_device("pi-1", data=data_text(DataState(lacks=("dog", "cow"), unknown={"Dog": 2})))
    journal.close()
    waiting = "pi-0: waiting for samples in /p: 3 of 20; 2 set aside, such as a.png: cut\ufffd short; 4 unlabeled"
    lacking = "pi-1: no sample of dog, cow; not a class of the fleet: Dog (2)"
    for command in (("status",), ("device", "list")):
        code, text, _ = run(capsys, *command, "-c", config)
        assert code == 0
        flat = " ".join(text.split())
        assert waiting in flat
        assert lacking in flat
    code, text, _ = run(capsys, "device", "list", "-c", config, "--json")
    devices = json.loads(text)
    assert [device["data"]["lacks"] for device in devices] == [[], ["dog", "cow"]]
    assert device_row(devices[0])[1] == "online, waiting"


def test_a_long_state_is_whole_when_it_is_piped(config: Path, capsys: pytest.CaptureFixture) -> None:
    name = "a-board-with-a-name-that-takes-a-third-of-an-old-terminal"
    waiting = data_text(DataState(waiting="waiting for samples in /p: 0 of 20"))
    with closing(Journal(load_fleet_config(config).state / "journal.db")) as journal:
        journal.note_device(name, status="online", prototype="mlp:fp32", data=waiting)
        journal.add_failure(1, name, "the file of its samples has gone " * 5)
    _, out, _ = run(capsys, "status", "--config", config)
    (row,) = [line for line in out.splitlines() if line.startswith(name)]
    assert row.split("  ")[1].strip() == "online, failed, waiting"
    assert "the file of its samples has gone " * 4 in out
