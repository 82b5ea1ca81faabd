"""`edgestill agent data` and `collect` as a person types them."""

import json
from pathlib import Path

import pytest
from PIL import Image

from core.errors import ConfigError
from edge_agent.samples.task_file import KnownTask, write_task
from tests.edge_agent.samples.pictures import draw, old
from tests.edgestill.cli.typed import run
from wire.messages import Task


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "agent.toml").write_text(
        '[agent]\nfleet = "f"\ndevice = "pi-1"\nstate_dir = "state"\n[broker]\nhost = "127.0.0.1"\n'
        f'[keys]\nprivate = "k.pem"\naggregator = "{"0" * 64}"\n[model]\nprototype = "cnn:fp32"\n'
        '[data]\nkind = "folder"\npath = "pictures"\nmin_samples = 3\n'
    )
    (tmp_path / "state").mkdir()
    return tmp_path / "agent.toml"


def test_it_shows_what_the_agent_sees(config: Path, capsys: pytest.CaptureFixture) -> None:
    root, sheet = config.parent / "pictures", config.parent / "sheet.png"
    for name in ("cat/a.png", "cat/b.png", "cat/c.png", "Cat/d.png", "e.png"):
        draw(root / name)
    (root / "cat" / "bad\x1b.png").write_bytes(b"none")
    for number in range(7):
        (root / f"{number}.heic").write_bytes(b"")
    old(root / "cat" / "bad\x1b.png")
    write_task(
        config.parent / "state", KnownTask(input_shape=(1, 8, 8), classes=2, task=Task(class_names=("cat", "dog")))
    )
    code, text, _ = run(capsys, "agent", "data", "-c", config, "--contact-sheet", sheet)
    assert code == 0
    flat = " ".join(text.split())
    for words in (
        "ready to train",
        "cat 3 0 dog 0 0 in all 3 0",
        "unlabeled, waiting for a label: 1",
        "not a class of the fleet: Cat: 1",
        "set aside: 1",
        "cat/bad?.png: not a readable picture",
        "passed over: 7 0.heic: not a picture by its name",
        "… and 2 more",
    ):
        assert words in flat
    assert Image.open(sheet).size[1] == 68
    code, text, _ = run(capsys, "agent", "data", "-c", config, "--json")
    facts = json.loads(text)
    assert (facts["counts"], facts["lacks"], facts["task"]["classes"]) == ({"cat": 3}, ["dog"], 2)


def test_a_board_without_samples_and_task_says_so(config: Path, capsys: pytest.CaptureFixture) -> None:
    code, text, _ = run(capsys, "agent", "data", "-c", config)
    assert code == 0
    flat = " ".join(text.split())
    assert "pictures: 0 of 3; it is not there yet" in flat
    assert "the fleet's task is not known yet: it comes with the first model" in flat


def test_collected_pictures_are_seen(config: Path, capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    shot = draw(tmp_path / "shot.png")
    code, text, _ = run(
        capsys, "agent", "collect", "-c", config, "--label", "cat", "--from", f"cat {shot}", "--count", 2, "--every", 0
    )
    assert (code, len(text.split())) == (0, 2)
    for path in text.split():
        old(Path(path))
    code, text, _ = run(capsys, "agent", "data", "-c", config, "--json")
    assert json.loads(text)["counts"] == {"cat": 2}


def test_collect_wants_one_source_and_a_folder(config: Path, capsys: pytest.CaptureFixture) -> None:
    code, _, errors = run(capsys, "agent", "collect", "-c", config, "--label", "cat")
    assert code == 2
    assert "give either --camera or --from" in errors
    config.write_text(config.read_text().replace('kind = "folder"\n', ""))
    code, _, errors = run(capsys, "agent", "collect", "-c", config, "--label", "cat", "--from", "true")
    assert code == ConfigError.exit_code
    assert "pictures are collected for kind" in errors
