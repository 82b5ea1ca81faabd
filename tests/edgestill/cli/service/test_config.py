"""`edgestill config check` on the files of a fleet."""

import json
from pathlib import Path

import pytest

from edgestill.cli.main import main
from wire.keys import generate_key, public_key_hex, save_private_key

pytestmark = pytest.mark.light

AGENT = """
[agent]
fleet = "home"
device = "pi-07"
state_dir = "state"
[broker]
username = "pi-07"
password = "hush"
[keys]
private = "pi-07.key"
aggregator = "{key}"
[model]
prototype = "cnn:w1"
[data]
path = "data.npz"
"""
FLEET = """
[fleet]
id = "home"
[state]
dir = "state"
key = "aggregator.key"
[task]
input_shape = [1, 8, 8]
classes = 10
[prototypes]
names = ["cnn:w1"]
[devices]
pi-07 = {{ key = "{key}" }}
"""


def check(text: str, folder: Path, capsys: pytest.CaptureFixture) -> tuple[int, str, str]:
    key = generate_key()
    save_private_key(key, folder / "pi-07.key")
    save_private_key(key, folder / "aggregator.key")
    (folder / "x.toml").write_text(text.format(key=public_key_hex(key.public_key())))
    with pytest.raises(SystemExit) as stopped:
        main(["config", "check", str(folder / "x.toml"), "--json"])
    captured = capsys.readouterr()
    return stopped.value.code, captured.out, captured.err


def test_an_agents_file_is_resolved_and_its_password_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    code, out, _ = check(AGENT, tmp_path, capsys)
    assert code == 0
    facts = json.loads(out)
    assert facts["agent"]["device"] == "pi-07"
    assert facts["train"]["threads"] == 1
    assert "hush" not in out


def test_a_fleets_file_is_resolved(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, _ = check(FLEET, tmp_path, capsys)
    assert code == 0
    assert json.loads(out)["task"]["input_shape"] == [1, 8, 8]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AGENT.replace("prototype", "prototpye"), "did you mean 'prototype'"),
        (AGENT.replace("cnn:w1", "cnn:w7"), "unknown precision"),
        (FLEET.replace("[fleet]", "[fleeet]"), "neither [agent] nor [fleet]"),
        (FLEET.replace("classes = 10", "classes = ten"), "x.toml"),
        (FLEET.replace("classes = 10", 'classes = "ten"'), "classes"),
    ],
)
def test_a_mistake_is_one_line(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, err = check(text, tmp_path, capsys)
    assert code == 3
    assert words in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["config", "check", str(tmp_path / "none.toml")])
    assert stopped.value.code == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_last_line_says_that_it_is_fine_and_samples_may_come_later(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    check(AGENT, tmp_path, capsys)
    with pytest.raises(SystemExit) as stopped:
        main(["config", "check", str(tmp_path / "x.toml")])
    said = capsys.readouterr()
    assert stopped.value.code == 0
    assert said.out.splitlines()[-1] == f"ok: {tmp_path / 'x.toml'} is an agent.toml"
    missing = f"there is no file {tmp_path / 'data.npz'}; it is needed before the first round"
    assert said.err == f"warning: {tmp_path / 'x.toml'} [data]: 'path': {missing}\n"
    (tmp_path / "data.npz").touch()
    with pytest.raises(SystemExit):
        main(["config", "check", str(tmp_path / "x.toml")])
    assert capsys.readouterr().err == ""


def test_what_serve_would_fail_without_is_an_error_that_names_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    text = FLEET.replace("classes = 10", 'classes = 10\nvalidation = "v.npz"').replace("aggregator.key", "other.key")
    code, out, err = check(text, tmp_path, capsys)
    assert code == 3
    assert json.loads(out)["task"]["classes"] == 10, "what it resolves to is shown all the same"
    path = tmp_path / "x.toml"
    assert err == (
        f"edgestill: {path} [state]: 'key': there is no file {tmp_path / 'other.key'}, and [task]: 'validation': "
        f"there is no file {tmp_path / 'v.npz'}; make it, or change the path\n"
    )
