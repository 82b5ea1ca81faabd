"""Pictures from a command, into the class folder."""

import shlex
import sys
from pathlib import Path

import pytest

from core.errors import ConfigError, DataError
from edge_agent.collect import collect_pictures
from edge_agent.config import AgentConfig, read_agent_config
from edge_agent.samples.task_file import KnownTask, write_task
from tests.edge_agent.samples.pictures import draw
from wire.messages import Task

pytestmark = pytest.mark.light


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    (tmp_path / "agent.toml").write_text(
        '[agent]\nfleet = "f"\ndevice = "pi-1"\nstate_dir = "state"\n[broker]\nhost = "127.0.0.1"\n'
        f'[keys]\nprivate = "k.pem"\naggregator = "{"0" * 64}"\n[model]\nprototype = "cnn:fp32"\n'
        '[data]\nkind = "folder"\npath = "pictures"\n'
    )
    (tmp_path / "state").mkdir()
    return read_agent_config(tmp_path / "agent.toml", environ={})


def take(config: AgentConfig, command: str, label: str = "cat", count: int = 1) -> list[Path]:
    return list(collect_pictures(config, label, command=command, count=count, every=0.0))


def test_a_command_prints_a_picture_or_the_path_of_one(config: AgentConfig, tmp_path: Path) -> None:
    picture = draw(tmp_path / "shot.png")
    found = take(config, f"cat {shlex.quote(str(picture))}", count=2) + take(
        config, f"echo {shlex.quote(str(picture))}"
    )
    assert len({*found}) == 3
    for path in found:
        assert path.parent == tmp_path / "pictures" / "cat"
        assert path.suffix == ".png"
        assert path.read_bytes() == picture.read_bytes()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("false", "false: exit code 1: it printed nothing"),
        ("echo hello", r"--from 'echo hello': gave neither a picture nor the path of one \(not a readable picture"),
        ("no-such-command-here", "is it installed"),
        ("'", "No closing quotation"),
        (f"{sys.executable} -c 'import sys; sys.exit(\"no camera\")'", "no camera"),
    ],
)
def test_what_gives_no_picture_is_one_line_and_leaves_no_file(config: AgentConfig, command: str, message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        take(config, command)
    assert list((config.data.path / "cat").iterdir()) == []


@pytest.mark.parametrize("label", ["../x", "", ".", "a/b", "a\n"])
def test_a_label_is_the_name_of_a_folder(config: AgentConfig, label: str) -> None:
    with pytest.raises(ConfigError, match="it names a folder"):
        take(config, "true", label)


def test_a_class_that_the_fleet_does_not_have_is_refused_once_the_task_is_known(config: AgentConfig) -> None:
    write_task(config.state_dir, KnownTask(input_shape=(1, 8, 8), classes=2, task=Task(class_names=("cat", "dog"))))
    with pytest.raises(ConfigError, match="not a class of the fleet; did you mean 'dog'"):
        take(config, "true", "dgo")


def test_without_a_camera_the_ways_are_told(config: AgentConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ConfigError, match=r"--camera needs rpicam-still.*or use --from COMMAND"):
        list(collect_pictures(config, "cat", command=None, count=1, every=0.0))


def test_the_camera_command_of_the_board_is_used(
    config: AgentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = draw(tmp_path / "shot.png")
    fake = tmp_path / "bin" / "libcamera-still"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\nexec /bin/cat {picture}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}")
    (found,) = collect_pictures(config, "cat", command=None, count=1, every=0.0)
    assert found.read_bytes() == picture.read_bytes()
    assert (tmp_path / "words").read_text().split()[-2:] == ["--output", "-"]
