"""The worker as a real process: its answers, its death, its return."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from aggregator.config.fusion import FusionConfig
from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.worker.__main__ import Worker, _traceback_of_others
from aggregator.worker.supervisor import TRIES, WorkerProcess
from core.errors import ConfigError, DataError
from tests.aggregator.journals import a_model, a_round, an_update
from tests.aggregator.running import ROOT
from tests.aggregator.scripted import FLEET, key_of, seal_update
from wire.headers import encode_update
from wire.ids import AGGREGATOR
from wire.keys import save_private_key
from wire.messages import UpdateHeader
from wire.tensors import decode, encode


def setup_in(folder: Path, **changes: object) -> dict:
    save_private_key(key_of(AGGREGATOR), folder / "key")
    facts = {
        "state": str(folder),
        "key": str(folder / "key"),
        "fleet": FLEET,
        "seed": 3,
        "input_shape": [1, 4, 4],
        "classes": 3,
        "latent": 8,
        "validation": None,
        "prototypes": ["mlp:fp32"],
        "fusion": FusionConfig().to_json(),
    }
    return {**facts, **changes}


class Asking:
    """A worker process, and waiting for its answers."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.news = threading.Event()
        self.worker = WorkerProcess(setup_in(folder, **changes), self.news.set)

    def answer(self, seconds: float = 120) -> dict:
        while True:
            answer = self.worker.take()
            if answer is not None:
                return answer
            assert self.news.wait(seconds), "no answer"
            self.news.clear()

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()


def one_round(folder: Path, start: dict) -> None:
    """Round 1 of two devices that send the start model plus 1 and plus 3."""
    blobs, journal = Blobs(folder / "blobs"), Journal(folder / "journal.db")
    body = open_artifact(blobs.read(start["digest"]))[1]
    journal.add_model(a_model(prototype="mlp:fp32"))
    journal.open_round(a_round(1, "fusing"), [])
    for device, shift in (("a", 1.0), ("b", 3.0)):
        header = UpdateHeader(
            round=1, device=device, prototype="mlp:fp32", update="state", num_examples=2, label_counts=(), base=None
        )
        tensors = {name: t + np.float32(shift) for name, t in decode(body).items()}
        sealed = seal_update(device, encode_update(header, encode(tensors)), 1)
        journal.add_update(an_update(device, digest=blobs.put(sealed), num_examples=2))
        journal.db.execute("INSERT INTO invitations VALUES (1, ?, 'mlp:fp32', ?)", (device, start["digest"]))
    journal.close()


def test_it_builds_fuses_dies_and_comes_back_to_the_same_bits(tmp_path: Path) -> None:
    with Asking(tmp_path) as asking:
        asking.worker.ask({"task": "start", "prototypes": ["mlp:fp32"]})
        assert asking.worker.busy
        (start,) = asking.answer()["models"]
        assert (start["prototype"], start["round"], start["parents"]) == ("mlp:fp32", 0, [])
        one_round(tmp_path, start)
        asking.worker.ask({"task": "fuse", "round": 1})
        first = asking.answer()
        (fused,) = first["models"]
        blobs = Blobs(tmp_path / "blobs")
        before, after = (decode(open_artifact(blobs.read(m["digest"]))[1]) for m in (start, fused))
        for name, array in after.items():
            np.testing.assert_allclose(array, before[name] + 2.0, rtol=1e-6)
        process = asking.worker._process
        process.send_signal(signal.SIGSTOP)  # or it might have answered before it dies
        asking.worker.ask({"task": "fuse", "round": 1})
        process.kill()
        again = asking.answer()
        assert again["models"] == first["models"]
        assert again["report"]["devices"] == first["report"]["devices"]
        assert asking.worker._process is not process
        assert asking.worker.deaths == 0


def test_a_crash_point_in_the_worker_is_met_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Asking(tmp_path) as asking:
        asking.worker.ask({"task": "start", "prototypes": ["mlp:fp32"]})
        one_round(tmp_path, asking.answer()["models"][0])
    monkeypatch.setenv("EDGESTILL_CRASH_AT", "worker-fusing")
    with Asking(tmp_path) as asking:
        asking.worker.ask({"task": "fuse", "round": 1})
        process = asking.worker._process
        assert len(asking.answer()["models"]) == 1
        assert process.poll() == -signal.SIGKILL


def test_an_error_of_ours_is_an_answer_in_one_line(tmp_path: Path) -> None:
    with Asking(tmp_path, validation=str(tmp_path / "none.npz")) as asking:
        asking.worker.ask({"task": "start", "prototypes": ["mlp:fp32"]})
        assert "none.npz: No such file or directory" in asking.answer()["error"]


def test_an_error_of_a_user_s_code_is_answered_with_where_it_was_raised() -> None:
    def cautious() -> None:
        raise KeyError("n")

    def guarded() -> None:
        try:
            cautious()
        except KeyError as error:
            raise ConfigError("mypackage: weigh.cautious failed") from error

    with pytest.raises(ConfigError) as caught:
        guarded()
    text = _traceback_of_others(caught.value)["traceback"]
    assert "in cautious" in text
    assert text.endswith("KeyError: 'n'\n")
    assert _traceback_of_others(ConfigError("ours")) == {}


def test_a_worker_that_cannot_live_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Asking(tmp_path) as asking:
        asking.worker.ask({"task": "start", "prototypes": ["mlp:fp32"]})
        assert asking.answer()["error"].startswith(f"the worker process died {TRIES} times in a row")
        assert not asking.worker.busy


def test_what_libraries_print_does_not_disturb_the_answers(tmp_path: Path) -> None:
    code = (
        "import aggregator.worker.__main__ as w; "
        "told = {'__init__': lambda self, setup: None, 'answer': lambda self, request: print('noise') or request}; "
        "w.Worker = type('Noisy', (), told); w.main()"
    )
    env, lines = {**os.environ, "PYTHONPATH": str(ROOT)}, '{}\n{"task": 1}\n'
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, env=env, check=True)
    assert json.loads(done.stdout) == {"task": 1}
    assert "noise" in done.stderr


def test_memory_outlives_the_worker_and_late_updates_teach(tmp_path: Path) -> None:
    """Two rounds with momentum: the second, fused twice by new workers, reads what the first has left."""
    setup = setup_in(tmp_path)
    (start,) = Worker(setup).answer({"task": "start", "prototypes": ["mlp:fp32"]})["models"]
    one_round(tmp_path, start)
    journal, blobs = Journal(tmp_path / "journal.db"), Blobs(tmp_path / "blobs")
    text = 'fedavgm {"server_momentum": 0.5}'
    journal.db.execute("UPDATE rounds SET recipe = ?", (text,))
    first = Worker(setup).answer({"task": "fuse", "round": 1})
    journal.set_round(1, phase="closed")
    journal.open_round(a_round(2, "fusing", recipe=text), [])
    journal.db.execute("INSERT INTO invitations VALUES (2, 'a', 'mlp:fp32', ?)", (first["models"][0]["digest"],))
    journal.db.execute("UPDATE updates SET late = 1 WHERE device = 'b'")
    journal.note_late(2)
    sent = next(u for u in journal.updates(1))
    journal.add_update(an_update("a", 2, digest=sent.digest))
    once, again = (Worker(setup).answer({"task": "fuse", "round": 2}) for _ in range(2))
    assert once["models"] == again["models"]
    assert once["models"][0]["parents"] == (first["models"][0]["digest"], sent.digest)
    assert {d: r["weight"] for d, r in once["report"]["devices"].items()} == {"a": 1.0, "b": 0.0}
    arrays = [decode(open_artifact(blobs.read(m["digest"]))[1]) for m in (start, first["models"][0], once["models"][0])]
    for name, w0 in arrays[0].items():
        # v1 = w0 - (w0 + 2), w1 = w0 + 2; v2 = v1 / 2 + w1 - (w0 + 1) = -1 + 1
        np.testing.assert_allclose(arrays[1][name], w0 + 2, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(arrays[2][name], w0 + 2, rtol=1e-5, atol=1e-5)
    assert sorted(p.name for p in (tmp_path / "memory").iterdir()) == ["1.safetensors", "2.safetensors"]


def test_what_fusion_needs_is_loaded_when_the_worker_starts(tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", x=np.ones((5, 1, 4, 4), np.float32))
    fusion = {**FusionConfig().to_json(), "source": str(tmp_path / "pool.npz"), "source_size": 3, "device": "cpu"}
    server = Worker(setup_in(tmp_path, fusion=fusion)).fuser.server
    assert server.source is not None
    assert tuple(server.source.shape) == (3, 1, 4, 4)
    assert (server.seed, server.validation, server.processes) == (3, None, 1)
    with pytest.raises(DataError, match=r"none.onnx: No such file or directory; 'teachers' are ONNX files"):
        Worker(setup_in(tmp_path, fusion={**fusion, "teachers": [str(tmp_path / "none.onnx")]}))
