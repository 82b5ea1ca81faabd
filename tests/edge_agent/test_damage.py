"""Whatever has become of a file in the state folder: the agent starts, says which it set aside, and does a round."""

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_agent.child.sample_watch import SampleWatch
from edge_agent.config import read_agent_config
from edge_agent.protocol.events import Fetched, Resumed
from edge_agent.service import Service
from edge_agent.state.store import Store
from tests.brokers import Broker, Mosquitto
from tests.edge_agent.scripted import (
    DIGEST,
    PROTOTYPE,
    SEALED,
    ScriptedAggregator,
    make_job,
    make_offer,
    start_agent,
    used,
    wait_for,
    write_device,
)
from wire.keys import load_private_key
from wire.messages import State


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("something")


def _unreadable(path: Path) -> None:
    path.write_bytes(b"{}")
    path.chmod(0)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_text("garbage " * 20),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 3),
    "huge number": lambda path: path.write_text("9" * 5000),
    "another type": lambda path: path.write_text('[{"a": [1e999, null]}]'),
    "deep": lambda path: path.write_text("[" * 100_000),
    "folder": _folder,
    "fifo": _fifo,
    "unreadable": _unreadable,
}


#: Those whose content the agent itself does not read.
ONLY_KINDS = ("agent.lock", "child.lock", "current.onnx", "current.safetensors", "current.json", "learned")
READ = ("session", "newest.json", "settings.json", "taken", "update", "entry.json", "model")


@pytest.mark.parametrize("name", [*READ, *ONLY_KINDS])
def test_a_damaged_file_never_stops_the_agent_and_is_named_in_one_line(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SampleWatch, "wait", lambda _: None)  # a process each, which is not the matter here
    caplog.set_level(logging.WARNING)
    for damage, damaged in DAMAGES.items():
        if damage == "unreadable" and os.geteuid() == 0:
            continue  # root reads it all the same
        config, files = used(tmp_path / damage.replace(" ", "-"))
        damaged(files[name])
        caplog.clear()
        service = Service(read_agent_config(config))
        found = service.store.models.look(DIGEST)
        shown = files[name].parent.name if name in ("update", "entry.json") else files[name].name
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        wrong_kind = damage in ("folder", "fifo")
        if name in READ or wrong_kind:
            assert len(lines) == 1, (damage, lines)
            assert shown in lines[0]
        else:
            assert lines == [], damage
        assert isinstance(found, Resumed if name == "model" else Fetched), damage
        assert len(service._agent.uploads) == (name not in ("update", "entry.json")), damage
        service.store.close()


def test_a_session_that_is_not_known_is_followed_by_one_later_than_any_before(tmp_path: Path) -> None:
    for damage, damaged in DAMAGES.items():
        root = tmp_path / damage.replace(" ", "-")
        store = Store(root, prototype=PROTOTYPE)
        before = [store.next_session() for _ in range(3)]
        if damage == "unreadable" and os.geteuid() == 0:
            continue
        damaged(root / "session")
        assert store.next_session() > 1_700_000_000 > max(before), damage
        assert store.next_session() == int((root / "session").read_text()), damage
        store.close()


def test_a_session_later_than_any_does_not_need_a_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "state", prototype=PROTOTYPE)
    (tmp_path / "state" / "session").write_text("many")
    monkeypatch.setattr("time.time", lambda: 12.0)  # 1970, as boards without a battery say
    assert store.next_session() > 1_700_000_000
    State(status="online", session=store.next_session())


@pytest.mark.parametrize("name", ["outbox", "finished", "ready", "staging", "learned", "models", "partial", "damaged"])
def test_a_file_where_a_folder_belongs_makes_room(tmp_path: Path, name: str) -> None:
    root = tmp_path / "state"
    root.mkdir()
    (root / name).write_text("a file")
    store = Store(root, prototype=PROTOTYPE)
    store.next_session()
    (root / "session").write_text("many")
    store.next_session()
    assert (root / name).is_dir()
    assert (root / "damaged" / "session").read_text() == "many"
    store.close()


def test_files_that_nobody_put_there_are_no_trouble(tmp_path: Path) -> None:
    root = tmp_path / "state"
    Store(root, prototype=PROTOTYPE).close()
    for name in ("outbox", "finished", "ready", "staging", "learned", "models", "partial"):
        (root / name / "stray").write_bytes(b"\xff")
        (root / name / "gone").symlink_to("/nonexistent")
        (root / name / b"not-\xff-text".decode(errors="surrogateescape")).mkdir()
    store = Store(root, prototype=PROTOTYPE)
    assert (store.outbox(), [key for key in store.finished() if key.startswith("e")]) == ([], [])
    store.models.evict(set(), everything=True)
    assert list((root / "models").iterdir()) == []
    store.close()


def test_a_damaged_partial_model_is_begun_anew(tmp_path: Path) -> None:
    for damage, damaged in DAMAGES.items():
        if damage == "unreadable" and os.geteuid() == 0:
            continue
        store = Store(tmp_path / damage.replace(" ", "-"), prototype=PROTOTYPE)
        for name in (DIGEST, f"{DIGEST}.state"):
            path = store.root / "partial" / name
            path.write_bytes(b"something")
            damaged(path)
        assert store.models.look(DIGEST) == Resumed(DIGEST), damage
        content, chunks = ScriptedAggregator.cut(SEALED)
        for chunk in chunks:
            store.models.add(content.digest, chunk)
        assert store.models.check(DIGEST) == Fetched(DIGEST), damage
        store.close()


def test_a_chunk_that_claims_another_size_does_not_block_the_right_ones(tmp_path: Path) -> None:
    """Chunks are not signed: whoever publishes one may claim any size for the digest."""
    store = Store(tmp_path, prototype=PROTOTYPE)
    _, wrong = ScriptedAggregator.cut(b"junk" * 100, digest=DIGEST)
    store.models.add(DIGEST, wrong[0])
    for chunk in ScriptedAggregator.cut(SEALED)[1]:
        store.models.add(DIGEST, chunk)
    assert store.models.check(DIGEST) == Fetched(DIGEST)
    store.close()


# ---- with everything damaged at once, a real agent does a round


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen]]:
    started: list[subprocess.Popen] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait(120)


ROUND = [pytest.param(name, marks=pytest.mark.slow) for name in DAMAGES]


@pytest.mark.broker
@pytest.mark.parametrize("damage", ROUND)
def test_with_every_file_damaged_at_once_the_next_round_is_done(
    mosquitto: Mosquitto, tmp_path: Path, damage: str, processes: list[subprocess.Popen]
) -> None:
    if damage == "unreadable" and os.geteuid() == 0:
        pytest.skip("root reads what nobody may read")
    folder = tmp_path / "pi"
    config, files = used(folder, mosquitto.port)
    config.write_text(config.read_text() + '[update]\nkind = "delta"\ndelta_bits = 4\n')
    for path in files.values():
        DAMAGES[damage](path)
    with ScriptedAggregator(mosquitto.config, load_private_key(folder / "device.pem").public_key()) as aggregator:
        aggregator.publish_model(SEALED)
        aggregator.instruct(make_job(DIGEST, 2))
        processes.append(start_agent(config))
        wait_for(lambda: list((folder / "state" / "finished").glob("*-0000000002-*.accepted")), 120)
        assert aggregator.update()[0].round == 2
        if damage != "garbage":  # another child, another 5 s
            aggregator.instruct(make_offer(DIGEST, 2))
            taken = folder / "state" / "taken"
            wait_for(lambda: taken.is_file() and taken.read_text() == DIGEST, 120)
        assert aggregator.of_kind(State)[-1].status == "online"
    log = (folder / "agent.log").read_text()
    assert "Traceback" not in log
    for name in ("session", "newest.json", "settings.json", "taken", "residual", DIGEST, "outbox"):
        assert f"{name}" in log, name


# ---- the helper that counts labels at the start


def helper_of(process: subprocess.Popen) -> int | None:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == process.pid and b"edge_agent.samples.helper" in command:
            return int(path.parent.name)
    return None


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_an_agent_outlives_its_start_up_helper_and_counts_again_later(
    broker: Broker, tmp_path: Path, number: signal.Signals, processes: list[subprocess.Popen]
) -> None:
    config = write_device(tmp_path / "pi", broker.port)
    with ScriptedAggregator(broker.config, load_private_key(tmp_path / "pi" / "device.pem").public_key()) as aggregator:
        process = start_agent(config)
        processes.append(process)
        found: list[int] = []
        wait_for(lambda: found or found.extend(filter(None, [helper_of(process)])))
        os.kill(found[0], number)
        wait_for(lambda: aggregator.states() == ["online"], 120)
        assert process.poll() is None
        wait_for(lambda: [a.label_counts for a in aggregator.abouts()] == [(), (8, 8, 8)], 120)
    log = (tmp_path / "pi" / "agent.log").read_text()
    assert log.count("the samples are not counted") == 1
    assert ("SIGKILL" if number == signal.SIGKILL else "no answer for 30 s") in log
