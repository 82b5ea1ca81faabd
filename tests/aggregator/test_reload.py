"""fleet.toml read again by a running service: what changes at once, what waits for the next round, what is refused."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.rounds.events import Skip
from aggregator.rounds.state import Phase
from aggregator.service import Service
from tests.aggregator.running import Aggregator, Devices, wait_until
from tests.aggregator.scripted import write_fleet
from tests.brokers import Mosquitto
from tests.fuzz import world
from tests.fuzz.office import prepare_state
from transport.config import BrokerConfig

PROTOTYPES = f"!names = {list(world.PROTOTYPES)}".replace("'", '"')


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(*devices: str, **tables: str) -> Path:
        tables = {"prototypes": PROTOTYPES, **tables}
        return write_fleet(tmp_path, BrokerConfig(), list(devices or ("pi-0", "pi-1")), **tables)

    return written


@pytest.fixture
def used() -> list[FleetConfig]:
    return []


@pytest.fixture
def service(write: Callable[..., Path], tmp_path: Path, used: list[FleetConfig]) -> Iterator[Service]:
    """With a round open, as after a restart; not connected."""
    prepare_state(tmp_path / "state", {"pi-0": "mlp:fp32", "pi-1": "mlp:fp32"})
    service = Service(load_fleet_config(write()), reloaded=used.append)
    yield service
    service._end()


def reload(service: Service) -> None:
    service.hang_up()
    service.reload.poll(service)


def test_devices_and_limits_change_at_once_and_the_rest_after_the_round(
    service: Service, write: Callable[..., Path], used: list[FleetConfig]
) -> None:
    assert service.conductor.state.phase is Phase.COLLECTING
    write(
        "pi-0",
        "pi-2",
        limits="update_mb = 3\nmessages_per_minute = 1234",
        fusion='recipe = "fedavgm"',
        round="!rounds = 7\nmin_devices = 1",
        train="steps = 5",
    )
    reload(service)
    assert [service.gate.knows(f"pi-{i}") for i in range(3)] == [True, False, True]
    assert service.limiter._limits.messages_per_minute == 1234
    assert service.inbox.desk.uploads._max_size == 3_000_000
    assert [config.round.rounds for config in used] == [7]
    state = service.conductor.state
    assert (state.rules.rounds, state.rules.min_devices, service.conductor.config.recipe) == (2, 2, "fedavg")
    assert "pi-1" in state.invited  # the open round is as it was
    service.conductor.feed(Skip())
    service.reload.poll(service)
    state = service.conductor.state
    assert (state.phase, state.rules.rounds, state.rules.min_devices) == (Phase.WAITING, 7, 1)
    assert service.conductor.config.recipe == service.conductor.fusing.config.recipe == "fedavgm"
    assert service.conductor.config.hyper.steps == 5
    assert service.worker._setup["fusion"]["recipe"] == "fedavgm"
    assert "pi-1" not in state.devices


def test_more_rounds_open_again_what_was_done(service: Service, write: Callable[..., Path]) -> None:
    service.conductor.feed(Skip())
    write(round="!rounds = 1")
    with service.journal.transaction():
        service.journal.set_round(1, phase="closed")
    service.conductor.resync()
    reload(service)
    assert service.conductor.state.done == "all 1 rounds are done"
    write(round="!rounds = 9")
    reload(service)
    assert service.conductor.state.done == ""


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"round": "!deadline_s = true"}, "deadline_s"),
        ({"rounds": "x = 1"}, "unknown table [rounds]"),
        ({"task": "!input_shape = [1, 4, 4]\nclasses = 3\nlatent = 8"}, "[task] cannot change at run time; restart"),
        ({"fleet": '!id = "other"\nseed = 3', "broker": "keepalive_s = 7"}, "[fleet], [broker] cannot change"),
        ({"monitor": 'metrics = "127.0.0.1:1"'}, "[monitor] cannot change"),
        ({"round": '!mode = "async"\nbuffer = 2'}, "[round] mode cannot change at run time; restart the aggregator"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line_and_changes_nothing(
    service: Service,
    write: Callable[..., Path],
    used: list[FleetConfig],
    caplog: pytest.LogCaptureFixture,
    tables: dict[str, str],
    told: str,
) -> None:
    before = service.config
    write("pi-0", "pi-7", limits="update_mb = 3", **tables)
    with caplog.at_level(logging.INFO, "edgestill.aggregator"):
        reload(service)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert lines[0].startswith("reload refused, the configuration of before stays: ")
    assert told in lines[0]
    assert "\n" not in lines[0]
    assert (service.config, used, service.gate.knows("pi-7")) == (before, [], False)


def test_a_file_that_is_gone_is_refused(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.config.path.unlink()
    reload(service)
    assert "reload refused" in caplog.text
    assert service.gate.knows("pi-0")


def test_what_has_not_changed_changes_nothing(service: Service, used: list[FleetConfig]) -> None:
    setup, state = service.worker._setup, service.conductor.state
    reload(service)
    assert len(used) == 1
    assert service.worker._setup is setup
    assert service.conductor.state == state


@pytest.mark.slow  # a real service, whose worker imports torch
@pytest.mark.broker
def test_a_running_service_takes_a_new_device_and_another_recipe_and_is_never_killed(tmp_path: Path) -> None:
    rounds = "!rounds = 100000\nmin_devices = 1\ndeadline_s = 600"
    with Mosquitto(tmp_path / "mosquitto") as broker:
        path = write_fleet(tmp_path, broker.config, ["pi-0"], round=rounds)
        with Aggregator(path) as service, Devices(broker.config, ["pi-0", "pi-1"]):
            service.start()
            service.until(lambda journal: journal.completed() >= 1, 300)
            assert service.process is not None

            def hang_up(tables: dict[str, str], *devices: str, told: str) -> None:
                count = service.log.read_text().count(told)
                write_fleet(tmp_path, broker.config, list(devices), **tables)
                service.process.send_signal(signal.SIGHUP)
                wait_until(lambda: service.log.read_text().count(told) > count, 120)

            hang_up({"round": "rounds = x"}, "pi-0", told="reload refused")
            hang_up({"round": rounds, "train": "steps = 3"}, "pi-0", "pi-1", told="2 devices, 1 of them new")
            service.until(
                lambda journal: {u.device for u in journal.updates(journal.last_round().number - 1)} == {"pi-0", "pi-1"}
            )
            service.until(lambda journal: journal.last_round().hyper.steps == 3)
            for _ in range(50):
                service.process.send_signal(signal.SIGHUP)
            with closing(service.journal()) as journal:
                done = journal.completed()
            service.until(lambda journal: journal.completed() > done + 2)
            assert service.process.poll() is None
            assert service.end() == 0
