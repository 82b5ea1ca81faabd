"""Tasks on a cluster of two nodes: the same bits, also when a node is lost; and what is said when there is none."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from aggregator.fusion.process_pool import lent
from aggregator.fusion.ray_tasks import ClusterError, RayTasks, answer_with_files, find_ray
from aggregator.fusion.students.parallel import distill_all
from aggregator.fusion.teachers.logits import all_logits
from aggregator.fusion.teachers.remote import far_logits
from core.errors import ConfigError, RoundError
from tests.aggregator.fusion.students.test_parallel import HOW, TARGETS, X, students
from tests.aggregator.fusion.teachers.test_remote import teachers
from tests.ray_nodes import RayCluster

torch.set_num_threads(1)
HERE = "tests.aggregator.fusion.test_ray_tasks"


def copy_twice(request: dict[str, Any]) -> dict[str, Any]:
    """Waits for a file of the test's, if it is named; writes the given one twice."""
    started = request.get("started")
    if started:
        with open(started, "a") as file:
            file.write(f"{os.getpid()}\n")
        while not Path(request["go"]).exists():
            time.sleep(0.05)
    folder = Path(request["folder"])
    (folder / "out").write_bytes(2 * (folder / "in").read_bytes())
    return {"number": request["number"]}


def refuse(request: dict[str, Any]) -> dict[str, Any]:
    raise ConfigError("no, thanks")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with RayCluster(tmp_path_factory.mktemp("ray")) as started, started.inside():
        yield started


@pytest.fixture(scope="module")
def tasks(cluster: RayCluster) -> Iterator[RayTasks]:
    joined = RayTasks(cluster.address)
    yield joined
    joined.close()


def requests(folder: Path, count: int, **more: object) -> list[dict[str, Any]]:
    made = []
    for number in range(count):
        own = folder / f"request-{number}"
        own.mkdir()
        (own / "in").write_bytes(bytes([number]) * 1000)
        made.append({"folder": str(own), "number": number, **more})
    return made


def test_a_call_has_the_files_of_its_request_and_returns_its_own(tmp_path: Path) -> None:
    (request,) = requests(tmp_path, 1)
    answer, names, blobs = answer_with_files(f"{HERE}:copy_twice", request, ["in"], [b"ab"])
    assert (answer, names, blobs) == ({"number": 0}, ["out"], [b"abab"])
    assert not (tmp_path / "request-0" / "out").exists()  # it worked in a folder of its own


def test_an_address_that_does_not_answer_is_one_line_at_once() -> None:
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address, why in ((f"127.0.0.1:{port}", "Connection refused"), ("127.0.0.1:port", "invalid literal")):
        with pytest.raises(ClusterError, match=f"the Ray cluster at {address} does not answer: {why}") as raised:
            RayTasks(address)
        assert "\n" not in str(raised.value)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install 'edgestill\[ray\]'"):
        find_ray()


@pytest.mark.slow  # Ray takes half a minute to start on a busy machine
def test_teachers_and_students_on_two_nodes_give_the_bits_of_this_machine(tasks: RayTasks) -> None:
    assert tasks.workers == 2
    some, x = teachers()
    here, there = list(all_logits(some, x)), list(far_logits(tasks, some, x))
    assert len(here) == len(there) == 10
    assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True))
    with lent(tasks):
        far = distilled()
    assert all(torch.equal(a[name], b[name]) for a, b in zip(distilled(), far, strict=True) for name in a)


def distilled() -> list[Mapping[str, torch.Tensor]]:
    return [found.state for found in distill_all(students(), X, TARGETS, HOW, processes=2)]


@pytest.mark.slow
def test_an_error_of_a_call_is_its_line(tasks: RayTasks, tmp_path: Path) -> None:
    with pytest.raises(RoundError, match=r"^no, thanks$"):
        tasks.ask_all(f"{HERE}:refuse", requests(tmp_path, 1))


@pytest.mark.slow
def test_the_tasks_of_a_lost_node_are_repeated_and_answers_keep_their_order(
    cluster: RayCluster, tasks: RayTasks, tmp_path: Path
) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    asked = requests(tmp_path, 4, started=str(started), go=str(go))

    def lose() -> None:
        while not started.exists() or len(started.read_text().splitlines()) < 2:  # one on each node
            time.sleep(0.05)
        cluster.lose_a_node()
        go.touch()

    thread = threading.Thread(target=lose, daemon=True)
    thread.start()
    answers = tasks.ask_all(f"{HERE}:copy_twice", asked)
    thread.join(60)
    assert [answer["number"] for answer in answers] == [0, 1, 2, 3]
    for number, request in enumerate(asked):
        assert (Path(request["folder"]) / "out").read_bytes() == bytes([number]) * 2000
    assert len(started.read_text().splitlines()) == 5  # one was begun on the node that was lost
