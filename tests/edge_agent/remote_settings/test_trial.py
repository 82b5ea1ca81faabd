"""Settings from afar: what is taken over, what is refused, and the way back."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edge_agent.config import AgentConfig, read_agent_config
from edge_agent.remote_settings.trial import STARTS, Settings
from wire.messages import Desired

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parents[3]


def write_config(folder: Path, extra: str = "") -> Path:
    path = folder / "agent.toml"
    path.write_text(
        f"""
[agent]
fleet = "f"
device = "pi-1"
state_dir = "."
[keys]
private = "device.pem"
aggregator = "{"ab" * 32}"
[model]
prototype = "mlp:fp32"
graph = "mlp.onnx"
[data]
path = "samples.npz"
{extra}
"""
    )
    return path


def base(folder: Path, extra: str = "") -> AgentConfig:
    return read_agent_config(write_config(folder, extra), environ={})


def desired(version: int, **settings: str) -> Desired:
    named = {name.replace("__", "."): text for name, text in settings.items()}
    return Desired(device="pi-1", version=version, settings=named)


def test_what_is_safe_is_applied_and_the_rest_refused_with_a_reason(tmp_path: Path) -> None:
    settings = Settings(base(tmp_path), tmp_path)
    assert settings.report() is None
    wanted = desired(
        7,
        train__threads="2",
        log__level="debug",
        train__nice="99",
        agent__fleet="other",
        keys__aggregator="00",
        data__count_epsilon="9",
        broker__host="evil",
        train__mode="light",
        train__thread="3",
    )
    assert settings.take(wanted)
    assert (settings.config.train.threads, settings.config.log.level) == (2, "debug")
    assert (settings.config.fleet, settings.config.train.nice, settings.config.train.mode) == ("f", 5, "full")
    report = settings.report()
    assert (report.version, report.status) == (7, "applied")
    assert report.settings == {"train.threads": "2", "log.level": "debug"}
    assert report.refused["train.nice"] == "train.nice is 99, expected a whole number from 0 to 19"
    assert report.refused["train.thread"] == "train.thread: no such setting; did you mean 'train.threads'?"
    assert "on the board" in report.refused["keys.aggregator"]
    assert set(report.refused) == set(wanted.settings) - set(report.settings)


def test_settings_replace_each_other_and_an_older_version_changes_nothing(tmp_path: Path) -> None:
    settings = Settings(base(tmp_path), tmp_path)
    assert settings.take(desired(5, train__threads="2"))
    assert not settings.take(desired(5, train__threads="3"))
    assert not settings.take(desired(4, train__threads="3"))
    assert settings.config.train.threads == 2
    assert settings.take(desired(6, log__level="error"))
    assert (settings.config.train.threads, settings.config.log.level) == (1, "error")


def test_settings_that_do_not_go_together_are_refused_together(tmp_path: Path) -> None:
    settings = Settings(base(tmp_path), tmp_path)
    settings.take(desired(1, update__kind="delta", train__threads="2"))
    assert settings.report().settings == {"train.threads": "2"}
    assert "delta_bits is not given" in settings.report().refused["update.kind"]
    settings.take(desired(2, update__kind="delta", update__delta_bits="4"))
    assert (settings.config.update.kind, settings.config.update.delta_bits) == ("delta", 4)


def test_a_board_that_keeps_its_extractor_cannot_be_told_to_send_it(tmp_path: Path) -> None:
    settings = Settings(base(tmp_path, '[update]\nkind = "predictor"\n'), tmp_path)
    settings.take(desired(1, update__kind="state"))
    assert settings.config.update.kind == "predictor"
    assert "stays on the board" in settings.report().refused["update.kind"]


def test_settings_survive_a_restart_and_a_training_that_fails_with_new_ones_brings_the_old_ones_back(
    tmp_path: Path,
) -> None:
    settings = Settings(base(tmp_path), tmp_path)
    settings.take(desired(1, train__threads="2"))
    settings.worked()
    assert not settings.failed("a bad day")  # they are proven: it is not their fault
    settings.take(desired(2, train__memory_mb="64"))
    settings = Settings(base(tmp_path), tmp_path)
    assert settings.config.train.memory_mb == 64
    assert settings.failed("out of memory")
    assert (settings.config.train.memory_mb, settings.config.train.threads) == (None, 2)
    settings = Settings(base(tmp_path), tmp_path)
    report = settings.report()
    assert (report.version, report.status, report.reason) == (2, "rolled-back", "out of memory")
    assert report.settings == {"train.threads": "2"}
    assert not settings.take(desired(2, train__memory_mb="64"))


def test_two_trials_in_a_row_go_back_to_what_was_proven(tmp_path: Path) -> None:
    settings = Settings(base(tmp_path), tmp_path)
    settings.take(desired(1, train__threads="2"))
    settings.take(desired(2, train__threads="4"))
    assert settings.failed("too hot")
    assert settings.config.train.threads == 1


def test_an_agent_that_does_not_come_up_with_new_settings_goes_back(tmp_path: Path) -> None:
    Settings(base(tmp_path), tmp_path).take(desired(1, train__threads="2"))
    for _ in range(STARTS):
        settings = Settings(base(tmp_path), tmp_path)
        assert settings.config.train.threads == 2
    settings.connected()  # and its count begins again
    for _ in range(STARTS):
        assert Settings(base(tmp_path), tmp_path).config.train.threads == 2
    settings = Settings(base(tmp_path), tmp_path)
    assert settings.config.train.threads == 1
    assert settings.report().reason == "3 starts did not reach the broker with them"


def test_an_agent_toml_that_no_longer_goes_with_the_settings_wins(tmp_path: Path) -> None:
    settings = Settings(base(tmp_path), tmp_path)
    settings.take(desired(1, update__kind="state"))
    settings.worked()
    settings = Settings(base(tmp_path, '[train]\nmode = "light"\n'), tmp_path)
    assert settings.config.update.kind == "job"
    assert settings.report().status == "rolled-back"
    assert "a light device sends its predictor alone" in settings.report().reason


def test_a_damaged_file_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{")
    settings = Settings(base(tmp_path), tmp_path)
    assert settings.config == base(tmp_path)
    assert settings.report() is None


KILLED = """
import sys
from edge_agent.config import read_agent_config
from edge_agent.remote_settings.trial import Settings
from pathlib import Path
from wire.messages import Desired
settings = Settings(read_agent_config(sys.argv[1], environ={}), Path(sys.argv[1]).parent)
settings.take(Desired(device="pi-1", version=9, settings={"train.threads": "8"}))
"""


@pytest.mark.parametrize(("point", "threads"), [("agent-settings-heard", 2), ("agent-settings-kept", 8)])
def test_killed_at_any_step_the_old_settings_count_or_the_new_ones(tmp_path: Path, point: str, threads: int) -> None:
    settings = Settings(base(tmp_path), tmp_path)
    settings.take(desired(1, train__threads="2"))
    settings.worked()
    environment = {**os.environ, "EDGESTILL_CRASH_AT": point, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "agent.toml")], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert Settings(base(tmp_path), tmp_path).config.train.threads == threads
    assert json.loads((tmp_path / "settings.json").read_bytes())["version"] == (9 if threads == 8 else 1)
