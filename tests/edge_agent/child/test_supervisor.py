"""The training child as a real process: the bits it leaves, and in which words its ends are told apart."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from core.errors import ConfigError
from edge_agent.child import __main__ as child_process
from edge_agent.child.request import Request
from edge_agent.child.supervisor import Child, Ended, explain
from edge_agent.protocol.agent import instruction_key
from tests.edge_agent.devices import Device, expected, same
from tests.edge_agent.scripted import DEVICE, wait_for
from wire.messages import Hyper
from wire.tensors import decode


def start(request: Request, *, max_seconds: float = 600.0, attempt: int = 1) -> Child:
    return Child(request, max_seconds=max_seconds, now=time.monotonic(), wake=lambda: None, attempt=attempt)


def finish(child: Child, seconds: float = 600) -> Ended:
    found: list[Ended] = []
    wait_for(lambda: found.append(ended) or True if (ended := child.poll(time.monotonic())) else False, seconds)
    return found[0]


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


# ---- it ends well


def test_a_state_update_has_the_bits_that_a_simulated_twin_computes(tmp_path: Path) -> None:
    device = Device(tmp_path, "mlp:w1")
    job = device.job()
    ended = finish(start(device.request(job)))
    assert ended.facts is not None, ended.reason
    assert ended.facts["memory_mb"] > 100
    header, body = device.update(job)
    assert same(decode(body), expected(device, job))
    assert (header.round, header.device, header.prototype, header.base) == (1, DEVICE, "mlp:w1", device.digest)
    assert (header.num_examples, header.label_counts) == (24, (8, 8, 8))
    assert header.metrics["train_loss"] == pytest.approx(ended.facts["train_loss"])
    left = {path.name for path in (tmp_path / "state" / "outbox" / ended.key).iterdir()}
    assert left == {"update", "entry.json", "current.onnx", "current.safetensors", "current.json"}
    assert not list((tmp_path / "state" / "staging").iterdir())


def test_a_child_that_was_killed_leaves_nothing_and_the_next_one_the_same_bits(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = device.job()
    monkeypatch.setenv("EDGESTILL_CRASH_AT", "child-trained")
    ended = finish(start(device.request(job)))
    assert "SIGKILL" in ended.reason
    assert ended.again
    assert device.store.outbox() == []
    assert finish(start(device.request(job), attempt=2)).facts is not None  # crash points count for the first attempt
    first = device.store.spooled(instruction_key(job))
    assert same(decode(device.update(job)[1]), expected(device, job))
    assert finish(start(device.request(job), attempt=3)).facts is not None
    assert device.store.spooled(instruction_key(job)) == first  # a later child leaves it alone


# ---- it ends badly

NOT_FINITE = "training diverged: the gradient is not finite"


def test_what_cannot_work_is_not_tried_again(device: Device) -> None:
    ended = finish(start(device.request(device.job(), data="/nonexistent.npz")))
    assert ended.reason == "/nonexistent.npz: No such file or directory; check the path and its permissions"
    assert not ended.again


@pytest.mark.parametrize(
    ("prototype", "extra", "words"),
    [
        ("mlp:fp32", {}, "training diverged: weights are NaN or infinite"),
        # in one process, tests/edge_agent/training/test_sgd.py does the same
        pytest.param("mlp:fp32", {"clip": 1.0}, NOT_FINITE, marks=pytest.mark.slow),
        pytest.param("mlp:w1", {"clip": 1.0}, NOT_FINITE, marks=pytest.mark.slow),
    ],
    ids=["free", "clipped", "1-bit"],
)
def test_training_that_diverges_is_told_as_such_and_not_tried_again(
    tmp_path: Path, prototype: str, extra: dict[str, float], words: str
) -> None:
    device = Device(tmp_path, prototype)
    samples = dict(np.load(tmp_path / "samples.npz"))
    np.savez(tmp_path / "samples.npz", **{**samples, "x": np.full_like(samples["x"], 1e30)})
    job = device.job(hyper=Hyper(batch_size=4, lr=0.1, steps=5, extra=extra))
    ended = finish(start(device.request(job)))
    assert (ended.reason, ended.again) == (words, False)
    assert not list((tmp_path / "state" / "outbox").iterdir())


def test_a_child_that_needs_too_much_memory_says_so(device: Device) -> None:
    ended = finish(start(device.request(device.job(), memory_mb=150)))
    assert "out of memory (memory_mb = 150)" in ended.reason
    assert ended.again


def test_a_child_that_is_killed_by_the_system_is_reported_as_such(device: Device) -> None:
    child = start(device.request(device.job(hyper=Hyper(batch_size=4, lr=1e-4, steps=10**9))))
    os.kill(child.pid, signal.SIGSEGV)
    ended = finish(child)
    assert "SIGSEGV" in ended.reason
    assert ended.again


def test_a_child_without_progress_is_killed(device: Device) -> None:
    child = start(device.request(device.job()), max_seconds=0.5)
    os.kill(child.pid, signal.SIGSTOP)
    ended = finish(child)
    assert "hung: no progress for 0.5 s" in ended.reason
    assert ended.again
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_killing_a_child_ends_it_at_once(device: Device) -> None:
    child = start(device.request(device.job(hyper=Hyper(batch_size=4, lr=1e-4, steps=10**9))))
    child.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_a_child_of_a_dead_parent_does_nothing(device: Device) -> None:
    ended = finish(start(device.request(device.job(), parent=1)))
    assert "exit code 1" in ended.reason
    assert device.store.outbox() == []


def test_a_full_disk_is_told_and_leaves_nothing(device: Device) -> None:
    staging = device.folder / "state" / "staging"
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(staging)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("*** CANNOT MOUNT A SMALL DISK: A FULL DISK IS NOT TESTED ***")
    try:
        ended = finish(start(device.request(device.job())))
    finally:
        subprocess.run(["umount", "-l", str(staging)], check=True)
    assert "is full" in ended.reason
    assert ended.again
    assert device.store.outbox() == []


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (-signal.SIGKILL, "", "killed by SIGKILL; did the system run out of memory?"),
        (-signal.SIGABRT, "ABORT", "killed by SIGABRT (ABORT)"),
        (-99, "", "killed by signal 99"),
        (-signal.SIGILL, "", "built for another processor (illegal instruction); `edgestill doctor` names it"),
        (1, "RuntimeError: NumPy was built with baseline optimizations: (X)", "NumPy was built for another processor"),
        (12, "out of memory", "out of memory"),
        (4, "", "exit code 4"),
        (1, "ValueError: x", "exit code 1: ValueError: x"),
    ],
)
def test_an_exit_code_in_words(code: int, text: str, words: str) -> None:
    assert words in explain(code, text)


@pytest.mark.parametrize(("number", "doing"), [(1, "training"), (None, "an offered model")])
def test_without_torch_a_board_says_what_needs_it(
    device: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int | None, doing: str
) -> None:
    request = msgspec.structs.replace(device.request(device.job()), round=number)
    monkeypatch.setitem(sys.modules, "edge_agent.child.full", None)  # as if its imports were missing
    monkeypatch.setattr(child_process, "die_with_parent", lambda _: None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(request.encode())))
    assert child_process.main() == ConfigError.exit_code
    said = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(said)["text"].startswith(f"{doing} needs edge_agent.child.full; install edgestill[train]")
