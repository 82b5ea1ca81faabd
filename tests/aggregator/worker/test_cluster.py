"""Without a cluster that answers, a round is fused here; with one, its tasks are lent for that time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from aggregator.fusion.process_pool import far_pool
from aggregator.fusion.ray_tasks import ClusterError
from aggregator.worker import cluster as module
from aggregator.worker.cluster import Cluster
from tests.aggregator.running import NAMES, Devices, fleet
from tests.brokers import Broker, Embedded
from tests.ports import free_port
from tests.ray_nodes import RayCluster

FUSION = 'recipe = "feddf"\nsource = "noise"\nsource_size = 200\nsteps = 200\ncheck_every = 100\nbatch_size = 32'


class Tasks:
    """A cluster of three processors, which may be lost."""

    far, workers, lost, closed = True, 3, False, 0

    def __init__(self, address: str) -> None:
        self.address = address

    def ask_all(self, call: str, requests: Sequence[Any]) -> list[dict[str, Any]]:
        raise ClusterError("the Ray cluster at here:1 was lost: gone")

    def close(self) -> None:
        Tasks.closed += 1


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> type[Tasks]:
    monkeypatch.setattr(module, "RayTasks", Tasks)
    monkeypatch.setattr(Tasks, "closed", 0)
    return Tasks


def test_without_an_address_nothing_is_lent() -> None:
    assert Cluster({}).run(lambda processes: (processes, far_pool())) == ((0, None), [])


def test_the_tasks_are_lent_for_the_work_alone_and_kept(tasks: type[Tasks]) -> None:
    cluster = Cluster({"address": "here:1"})
    (processes, pool), notes = cluster.run(lambda processes: (processes, far_pool()))
    assert (processes, notes) == (3, [])
    assert isinstance(pool, Tasks)
    assert far_pool() is None
    assert cluster.run(lambda _: far_pool())[0] is pool  # type: ignore[comparison-overlap]


def test_a_cluster_that_is_lost_costs_time_and_a_line(tasks: type[Tasks]) -> None:
    asked: list[int] = []

    def work(processes: int) -> str:
        asked.append(processes)
        pool = far_pool()
        if pool is not None:
            pool.ask_all("a:b", [{}])
        return "fused"

    cluster = Cluster({"address": "here:1"})
    for _ in range(2):
        fused, (note,) = cluster.run(work)
        assert fused == "fused"
        assert note.startswith("the Ray cluster at here:1 was lost: gone; this round is fused on this machine alone")
    assert asked == [3, 0, 3, 0]  # the second round tried it again
    assert tasks.closed == 2


def test_an_address_where_nothing_listens_is_one_line() -> None:
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    fused, notes = Cluster({"address": f"127.0.0.1:{port}"}).run(lambda processes: processes)
    assert fused == 0
    assert notes == [
        f"the Ray cluster at 127.0.0.1:{port} does not answer: Connection refused; this round is fused on this machine"
        " alone, the next one tries the cluster again"
    ]


def published(
    folder: Path, broker: Broker, started: Path, more: str = "", at_round_2: Callable[[], None] = lambda: None
) -> tuple[list[tuple[str, str, int]], str]:
    """The models of two rounds of a real service, and its log; called when the updates of round 2 are there."""
    with fleet(folder, broker, started, fusion=f"{FUSION}\n{more}") as service, Devices(broker.config, NAMES):
        service.start("--until-done")
        service.until(lambda journal: len(journal.updates(2)) == len(NAMES))
        at_round_2()
        assert service.wait() == 0
        journal = service.journal()
        try:
            return [(m.digest, m.prototype, m.round) for m in journal.models()], service.log.read_text()
        finally:
            journal.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, started: Path) -> list[tuple[str, str, int]]:
    """The models without a cluster."""
    with Embedded() as broker:
        return published(tmp_path_factory.mktemp("here"), broker, started)[0]


def test_a_service_whose_cluster_does_not_answer_goes_on_alone_and_says_so_in_one_line(
    tmp_path: Path, started: Path, here: list[tuple[str, str, int]]
) -> None:
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    address = f"127.0.0.1:{free_port()}"
    with Embedded() as broker:
        models, log = published(tmp_path, broker, started, f'engine = "ray"\naddress = "{address}"')
    assert models == here
    assert {number for _, _, number in models} == {0, 1, 2}
    lines = [line for line in log.splitlines() if address in line]
    assert [f"round {n}: the Ray cluster at {address} does not answer" in lines[n - 1] for n in (1, 2)] == [True, True]
    assert len(lines) == 2
    assert "Traceback" not in log


@pytest.mark.slow  # Ray takes half a minute to start on a busy machine
def test_a_service_on_two_nodes_publishes_the_same_bits_also_when_one_is_lost_during_fusion(
    tmp_path: Path, started: Path, here: list[tuple[str, str, int]]
) -> None:
    with RayCluster(tmp_path) as cluster, cluster.inside(), Embedded() as broker:
        settings = f'engine = "ray"\naddress = "{cluster.address}"'
        models, log = published(tmp_path / "fleet", broker, started, settings, cluster.lose_a_node)
        drivers = cluster.drivers()
    assert models == here
    assert "Ray cluster" not in log  # it was never fused alone
    assert drivers >= 1
