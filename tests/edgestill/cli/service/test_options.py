"""Options that several commands of a fleet share mean the same in all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgestill.cli.main import main
from tests.edgestill.cli.boards.test_options import option
from tests.edgestill.cli.service.test_config import AGENT, FLEET
from wire.keys import generate_key, public_key_hex, save_private_key

pytestmark = pytest.mark.light
COMMANDS = ["agent run", "agent data", "agent collect", "agent predict", "aggregator serve", "config check"]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_reads_a_file_takes_settings_in_its_place(command: str) -> None:
    found = option(command, "--set")
    assert found is not None
    assert found.help == option("agent run", "--set").help


@pytest.mark.parametrize(
    ("text", "setting", "table", "key", "value"),
    [(AGENT, "train.threads=3", "train", "threads", 3), (FLEET, "round.rounds=7", "round", "rounds", 7)],
)
def test_a_setting_is_checked_like_the_files(
    text: str, setting: str, table: str, key: str, value: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signing = generate_key()
    for name in ("pi-07.key", "aggregator.key"):
        save_private_key(signing, tmp_path / name)
    (tmp_path / "x.toml").write_text(text.format(key=public_key_hex(signing.public_key())))
    with pytest.raises(SystemExit):
        main(["config", "check", str(tmp_path / "x.toml"), "--json", "--set", setting])
    assert json.loads(capsys.readouterr().out)[table][key] == value
    with pytest.raises(SystemExit) as stopped:
        main(["config", "check", str(tmp_path / "x.toml"), "--set", f"{table}.{key}=none"])
    assert stopped.value.code == 3
    assert "is 'none'" in capsys.readouterr().err


def test_settings_without_a_file_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["agent", "predict", "--model", "x.onnx", "--input", "x.npy", "--set", "model.prototype=cnn"])
    assert stopped.value.code == 2
    assert "give --config" in capsys.readouterr().err
