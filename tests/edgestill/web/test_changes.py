"""A change of the journal or of the service's state is noticed."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import FleetConfig
from aggregator.status import write_status
from aggregator.storage.journal import Journal
from edgestill.web import changes as module
from edgestill.web.changes import Changes


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    monkeypatch.setattr(module, "ALIVE_S", 1e9)


async def until_change(changes: Changes) -> int:
    async for number in changes.follow():
        if number:
            return number
    return -1


async def noticed(state: Path, change: object) -> int:
    waiting = asyncio.create_task(until_change(Changes(state)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    change()  # type: ignore[operator]
    return await asyncio.wait_for(waiting, 60)


def test_a_commit_of_another_process_is_noticed(config: FleetConfig) -> None:
    def change() -> None:
        with closing(Journal(config.state / "journal.db")) as journal:
            journal.note_device("pi-0", status="offline")

    assert asyncio.run(noticed(config.state, change)) == 1


def test_the_state_of_the_service_is_noticed_but_not_its_time_alone(config: FleetConfig) -> None:
    write_status(config.state, {"time": 1.0, "connected": True})

    async def follow() -> int:
        waiting = asyncio.create_task(until_change(Changes(config.state)))
        await asyncio.sleep(0.05)
        write_status(config.state, {"time": 2.0, "connected": True})
        await asyncio.sleep(0.05)
        assert not waiting.done()
        write_status(config.state, {"time": 3.0, "connected": False})
        return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(follow()) == 1


def test_a_quiet_fleet_is_looked_at_again_now_and_then(config: FleetConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ALIVE_S", 0.003)
    assert asyncio.run(asyncio.wait_for(until_change(Changes(config.state)), 60)) == 1


def test_only_so_many_pages_are_told(config: FleetConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1)

    async def two() -> list[int]:
        changes = Changes(config.state)
        first = asyncio.create_task(until_change(changes))
        await asyncio.sleep(0.05)
        second = [number async for number in changes.follow()]
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return second

    assert asyncio.run(two()) == []


def test_the_end_of_the_server_ends_all_that_follow(config: FleetConfig) -> None:
    async def follow() -> int:
        changes = Changes(config.state)
        waiting = asyncio.create_task(until_change(changes))
        await asyncio.sleep(0.05)
        changes.end()
        return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(follow()) == -1
