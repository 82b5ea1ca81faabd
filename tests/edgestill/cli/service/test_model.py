"""`edgestill model`: listed, shown, exported, rolled back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors.numpy

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from tests.aggregator.journals import an_update
from tests.edgestill.cli.typed import run


def test_models_are_listed_shown_and_rolled_back(config: Path, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "model", "list", "--config", config, "--json")
    first, last = json.loads(out)
    assert [(m["number"], m["current"]) for m in (first, last)] == [(1, False), (2, True)]
    _, out, _ = run(capsys, "model", "list", "--config", config)
    assert "2*" in out
    assert "75.0 %" in out
    head, *_, row = out.splitlines()
    # what boards run leads, the full-precision score stands beside it
    assert (head.index("accuracy"), head.index("float weights")) == (row.index("75.0 %"), row.index("87.5 %"))
    _, out, _ = run(capsys, "model", "show", "mlp:fp32", "--config", config, "--json")
    facts = json.loads(out)
    assert (facts["digest"], facts["devices"]) == (last["digest"], ["pi-0"])
    run(capsys, "model", "rollback", "1", "--config", config)
    (command,) = Journal(load_fleet_config(config).state / "journal.db").commands()
    assert (command.verb, command.argument) == ("rollback", first["digest"])


def test_the_form_of_a_file_is_that_of_the_runtime_or_the_opset(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "m.onnx"
    args = ["model", "export", "mlp:fp32", "--config", config, "--out", out, "--precision", "w1", "--json"]
    for more, opset in ((["--runtime", "1.18"], 18), (["--runtime", "1.20"], 21), (["--opset", "21"], 21)):
        code, text, _ = run(capsys, *args, *more)
        assert code == 0
        facts = json.loads(text)
        assert (facts["opset"], facts["precision"]) == (opset, "w1")
    code, _, err = run(capsys, *args, "--runtime", "1.18", "--matmul-nbits")
    assert (code, "1.18 has no such operator" in err) == (3, True)
    code, _, err = run(capsys, *args[:-1], "--runtime", "1.2")
    assert (code, "1.15 and newer" in err) == (3, True)
    code, _, err = run(capsys, *args[:6], tmp_path / "m.safetensors", "--opset", "21")
    assert (code, "has no graph" in err) == (2, True)


@pytest.mark.parametrize("name", ["m.onnx", "m.safetensors"])
def test_a_model_is_exported_by_the_ending_of_its_file(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture, name: str
) -> None:
    code, out, _ = run(capsys, "model", "export", "mlp:fp32", "--config", config, "--out", tmp_path / name)
    assert code == 0
    assert "mlp:fp32 after round 0" in " ".join(out.split())
    assert (tmp_path / name).stat().st_size > 1000


def test_a_model_that_is_not_there_is_told_and_nothing_is_asked_or_written(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for args in (["rollback", "cnn:w1"], ["show", "99"], ["export", "resnet8:w1", "--out", tmp_path / "m.onnx"]):
        code, out, err = run(capsys, "model", *args, "--config", config)
        assert (code, out, err.count("\n")) == (3, "", 1)
        assert f"no model called '{args[1]}'" in err
    assert Journal(load_fleet_config(config).state / "journal.db").commands() == []
    assert not (tmp_path / "m.onnx").exists()


def test_the_format_that_is_asked_for_wins_over_the_ending(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    args = ["model", "export", "1", "--config", config, "--out", tmp_path / "m.onnx", "--format", "safetensors"]
    assert run(capsys, *args)[0] == 0
    assert safetensors.numpy.load_file(tmp_path / "m.onnx")


def test_one_model_is_shown_with_its_lineage_in_lines(config: Path, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "model", "show", "2", "--config", config)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if " " in line)
    assert (lines["round"], lines["current"], lines["devices"]) == ("1", "True", "['pi-0']")
    assert lines["parents"] == f"1: {an_update('pi-0').digest[:12]}"


def test_older_models_are_pruned_on_request_and_pinned_ones_stay(config: Path, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "model", "prune", "--last", "1", "--best", "0", "--dry-run", "--json", "--config", config)
    facts = json.loads(out)
    assert (facts["models"], facts["dry_run"]) == ([1], True)
    _, out, _ = run(capsys, "model", "prune", "--last", "5", "--config", config)
    assert out == "0 models, 0 bytes\n"
    code, _, err = run(capsys, "model", "prune", "--config", config)
    assert (code, "say how many stay with --last" in err, err.count("\n")) == (3, True, 1)
    code, out, _ = run(capsys, "model", "prune", "--last", "1", "--best", "0", "--config", config)
    assert (code, "it will prune when it starts" in out) == (0, True)
    code, out, _ = run(capsys, "model", "pin", "1", "--config", config)
    assert (code, "it will pin when it starts" in out) == (0, True)
    journal = Journal(load_fleet_config(config).state / "journal.db")
    assert [command.verb for command in journal.commands()] == ["prune", "pin"]
    journal.prune([1])
    journal.close()
    for command in (["rollback", "1"], ["pin", "1"], ["export", "1", "--out", config.parent / "m.onnx"]):
        if command[0] == "rollback":
            continue  # the service refuses it
        code, _, err = run(capsys, "model", *command, "--config", config)
        assert (code, "model 1 was pruned" in err) == (3, True)
    _, out, _ = run(capsys, "model", "list", "--config", config)
    assert "pruned" in out
