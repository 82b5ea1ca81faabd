"""The helper that surveys samples: when it is started, and what its failures cost."""

import time
from pathlib import Path

import numpy as np
import pytest

from edge_agent.child.sample_watch import SampleWatch
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.survey import Survey

pytestmark = pytest.mark.light


def watch_of(path: Path, *, refresh_s: float = 0.05, **spec: object) -> SampleWatch:
    state = path.parent / "state"
    state.mkdir(exist_ok=True)
    return SampleWatch(SourceSpec(path=str(path), **spec), state, refresh_s)


def polled(watch: SampleWatch) -> Survey:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = watch.poll(time.monotonic())
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("no survey")


def test_a_changed_file_is_surveyed_again_and_an_unchanged_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_agent.child.sample_watch.SHARE", 0)
    monkeypatch.setattr("edge_agent.child.sample_watch.STAT_S", 0.0)
    watch = watch_of(tmp_path / "samples.npz")
    first = watch.wait()
    assert first is not None
    assert first.waiting == f"waiting for samples in {tmp_path}/samples.npz: 0 of 1; it is not there yet"
    assert watch.poll(time.monotonic()) is None
    assert not watch.busy
    np.savez(tmp_path / "samples.npz", x=np.zeros((3, 2), np.float32), y=[0, 2, 2])
    assert polled(watch).label_counts == (1, 0, 2)
    assert watch.poll(time.monotonic()) is None


def test_a_damaged_file_is_told_and_tried_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_agent.child.sample_watch.SHARE", 0)
    monkeypatch.setattr("edge_agent.child.sample_watch.STAT_S", 0.0)
    path = tmp_path / "samples.npz"
    path.write_bytes(b"PK\x03\x04 cut short")
    watch = watch_of(path)
    first = watch.wait()
    assert first is not None
    assert first.waiting.startswith("waiting for samples: ")
    assert "not a readable .npz" in first.problem
    np.savez(path, x=np.zeros((1, 2), np.float32), y=[1])
    assert polled(watch).ready


def test_surveys_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_agent.child.sample_watch.STAT_S", 0.0)
    watch = watch_of(tmp_path / "samples.npz", refresh_s=1.0)
    watch.wait()
    np.savez(tmp_path / "samples.npz", x=np.zeros((3, 2), np.float32), y=[0, 2, 2])
    begun = watch._begun
    assert watch.poll(begun + 0.5) is None
    assert watch._process is None
    assert watch._due >= begun + max(1.0, 20 * watch._cost) - 0.01
    watch.kill()


def test_a_helper_that_dies_costs_the_counts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, nonsense for an answer, no process at all: each in the place of the real helper."""
    for number, code in enumerate(("kill -9 $$", "exit 1", "echo nonsense", "echo 3", "kill -11 $$")):
        fake = tmp_path / f"python-{number}"
        fake.write_text(f"#!/bin/sh\n{code}\n")
        fake.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(fake))
        assert watch_of(tmp_path / "samples.npz").wait() is None
    monkeypatch.setattr("sys.executable", str(tmp_path / "absent"))
    counter = watch_of(tmp_path / "samples.npz")
    assert counter.wait() is None
    counter.kill()


@pytest.mark.parametrize("end", ["kill -4 $$", "printf '%s\\n' 'NumPy was built with baseline optimizations:'"])
def test_a_numpy_for_another_processor_is_not_told_as_unreadable_samples(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{end} '(AVX2).' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(fake))
    assert watch_of(tmp_path / "samples.npz").wait() is None
    assert "was built for another processor" in caplog.text
