"""A thousand quick rounds with two devices: what stays on the disk and in memory is bounded by the policies."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.monitoring.disk import disk_use
from aggregator.storage.journal import Journal
from tests.aggregator.running import Aggregator, Devices, wait_until
from tests.aggregator.scripted import write_fleet
from tests.brokers import Mosquitto

pytestmark = [pytest.mark.slow, pytest.mark.broker]
ROUNDS = int(os.environ.get("MANY_ROUNDS", "1000"))
POLICY = "last = 5\nevery = 100\nbest = 1"
NAMES = ["pi-0", "pi-1"]


def memory_mb(pid: int) -> float:
    """Resident memory of the service and its worker."""
    tree = [pid, *(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    pages = 0
    for process in tree:
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except OSError:  # it has ended meanwhile
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(service: Aggregator, state: Path) -> dict[str, float]:
    assert service.process is not None
    config = load_fleet_config(service.config)
    journal = Journal(state / "journal.db", read_only=True)
    try:
        used = disk_use(config, journal)
        blobs = sum(path.stat().st_size for path in (state / "blobs").iterdir())
        return {"round": journal.completed(), "memory_mb": memory_mb(service.process.pid), "blobs": blobs, **used}
    finally:
        journal.close()


def test_disk_and_memory_are_bounded(tmp_path: Path, mosquitto: Mosquitto) -> None:
    tables = {"round": f"!rounds = {ROUNDS}\nmin_devices = 2\ndeadline_s = 600", "models": POLICY}
    path = write_fleet(
        tmp_path, mosquitto.config, NAMES, prototypes='!names = ["mlp:fp32"]', log='!level = "warning"', **tables
    )
    state, service = tmp_path / "state", Aggregator(path)
    found = []
    with service, Devices(mosquitto.config, NAMES, ("mlp:fp32",)):
        service.start()
        for number in range(ROUNDS // 10, ROUNDS + 1, ROUNDS // 10):
            service.until(lambda journal, number=number: journal.completed() >= number, 3600)
            found.append(measured(service, state))
        wait_until(lambda: len(list((state / "blobs").iterdir())) < 60, 60)
    (tmp_path / "measured.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found))  # noqa: T201 - the figures of docs/aggregator.md
    early, late = found[1], found[-1]
    model = next(row.size for row in Journal(state / "journal.db", read_only=True).models())
    kept = 5 + ROUNDS // 100 + 1 + 1 + 4  # last, every, best, the first, and those of rounds whose updates are kept
    assert late["models"] <= kept * model * 1.1
    assert late["blobs"] <= (kept + 2 * 4) * model * 1.2
    assert late["memory_mb"] < early["memory_mb"] + 25
