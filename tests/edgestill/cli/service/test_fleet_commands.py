"""`edgestill aggregator`, `status`, `device` and `model` on a journal, as a person types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.status import only_service, write_status
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import ModelRow
from aggregator.worker.fuse_round import Fuser
from edgestill.cli.main import main
from tests.aggregator.journals import a_round, an_update, asked
from tests.aggregator.scripted import FLEET, key_of, write_fleet
from transport.config import BrokerConfig
from wire.ids import AGGREGATOR


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A fleet of two devices after one round; no service runs."""
    path = write_fleet(tmp_path, BrokerConfig(), ["pi-0", "pi-1"], prototypes='!names = ["mlp:fp32"]')
    loaded = load_fleet_config(path)
    loaded.state.mkdir()
    journal, fuser = (
        Journal(loaded.state / "journal.db"),
        Fuser(Blobs(loaded.state / "blobs"), key_of(AGGREGATOR), FLEET),
    )
    journal.open_round(a_round(1, "closed"), asked("pi-0"))
    journal.add_update(an_update("pi-0"))
    journal.note_device("pi-0", status="online", prototype="mlp:fp32", examples=120)
    for number in (0, 1):
        digest, _ = fuser.start(loaded.spec("mlp:fp32"), number)
        journal.add_model(
            ModelRow(
                digest=digest,
                prototype="mlp:fp32",
                round=number,
                origin="fused" if number else "start",
                recipe="fedavg",
                parents=(an_update("pi-0").digest,) if number else (),
                metrics={"accuracy": 0.25 + number / 2, "accuracy_float": 0.375 + number / 2},
                size=fuser.blobs.path(digest).stat().st_size,
                created=1e9,
            )
        )
    journal.close()
    return path


def run(capsys: pytest.CaptureFixture, *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


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
        assert "left out" in out
    _, out, _ = run(capsys, "status", "--config", config)
    assert "left out of the last round: pi-1: accuracy 0.050 is below chance" in " ".join(out.split())


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


def test_devices_of_the_config_are_listed_even_if_never_heard_of(config: Path, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "device", "list", "--config", config, "--json")
    assert [(d["id"], d["status"], d["accepted"]) for d in json.loads(out)] == [
        ("pi-0", "online", 1),
        ("pi-1", "unknown", 0),
    ]
    _, out, _ = run(capsys, "device", "list", "--config", config)
    assert "pi-1" in out


@pytest.mark.parametrize(
    ("args", "verb", "argument"),
    [
        (["aggregator", "pause"], "pause", ""),
        (["aggregator", "resume"], "resume", ""),
        (["aggregator", "stop"], "stop", ""),
        (["device", "revoke", "pi-0"], "revoke", "pi-0"),
        (["device", "revoke", "pi-0", "--undo"], "allow", "pi-0"),
    ],
)
def test_a_command_waits_in_the_journal_for_an_aggregator_that_is_down(
    config: Path, capsys: pytest.CaptureFixture, args: list, verb: str, argument: str
) -> None:
    code, out, _ = run(capsys, *args, "--config", config)
    assert code == 0
    assert f"is not running: it will {verb} when it starts" in " ".join(out.split())
    (command,) = Journal(load_fleet_config(config).state / "journal.db").commands()
    assert (command.verb, command.argument) == (verb, argument)


def test_an_unknown_device_or_model_is_refused_before_anything_is_asked(
    config: Path, capsys: pytest.CaptureFixture
) -> None:
    code, _, err = run(capsys, "device", "revoke", "pi-00", "--config", config)
    assert (code, err.count("\n")) == (3, 1)
    assert "no device 'pi-00'" in err
    code, _, err = run(capsys, "model", "rollback", "cnn:w1", "--config", config)
    assert code == 3
    assert "no model called 'cnn:w1'" in err
    assert Journal(load_fleet_config(config).state / "journal.db").commands() == []


def test_models_are_listed_shown_and_rolled_back(config: Path, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "model", "list", "--config", config, "--json")
    first, last = json.loads(out)
    assert [(m["number"], m["current"]) for m in (first, last)] == [(1, False), (2, True)]
    _, out, _ = run(capsys, "model", "list", "--config", config)
    assert "2*" in out
    assert "75.0 %" in out
    assert "87.5 %" not in out, "models are listed with what boards run"
    _, out, _ = run(capsys, "model", "show", "mlp:fp32", "--config", config, "--json")
    facts = json.loads(out)
    assert (facts["digest"], facts["devices"]) == (last["digest"], ["pi-0"])
    run(capsys, "model", "rollback", "1", "--config", config)
    (command,) = Journal(load_fleet_config(config).state / "journal.db").commands()
    assert (command.verb, command.argument) == ("rollback", first["digest"])


@pytest.mark.parametrize("name", ["m.onnx", "m.safetensors"])
def test_a_model_is_exported_by_the_ending_of_its_file(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture, name: str
) -> None:
    code, out, _ = run(capsys, "model", "export", "mlp:fp32", "--config", config, "--out", tmp_path / name)
    assert code == 0
    assert "mlp:fp32 after round 0" in " ".join(out.split())
    assert (tmp_path / name).stat().st_size > 1000


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


def test_serve_says_what_is_wrong_with_its_key(config: Path, capsys: pytest.CaptureFixture) -> None:
    (config.parent / "aggregator.key").chmod(0o644)
    code, _, err = run(capsys, "aggregator", "serve", "--config", config)
    assert code == 3
    assert "others can read it; run chmod 600" in " ".join(err.split())


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
    assert " of 1 " in run(capsys, "round", "list", "-c", config)[1]
    code, text, _ = run(capsys, "device", "list", "-c", config, "--json")
    assert [device["problem"] for device in json.loads(text)] == ["training diverged: weights are\nNaN", ""]
