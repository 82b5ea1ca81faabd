"""A restored backup is followed at once by agents that are connected; what a broker has recorded is not followed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from fleet.mqtt.fleet import MqttSimulation
from fleet.simulation.device import FLEET
from tests.brokers import Broker
from tests.e2e.fleets import assert_equal, completed, config, finals, fleet, undisturbed, wait_for_rounds
from transport.link import Link, Received
from wire.codec import decode_instruction
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR
from wire.keys import load_private_key
from wire.messages import Job, Offer
from wire.topics import DeviceTopic


class Recorder:
    """A hostile broker's memory: every instruction of one device, and the right to publish it again."""

    def __init__(self, simulation: MqttSimulation, device: str) -> None:
        self.topic = str(DeviceTopic(FLEET, device, "job"))
        self.key = load_private_key(simulation.folder / "aggregator" / "aggregator.key").public_key()
        self.link = Link(simulation.broker, client_id="recorder", filters=[self.topic])
        self.heard: list[tuple[Job | Offer, bytes]] = []
        self.link.start()

    def listen(self) -> list[tuple[Job | Offer, bytes]]:
        while (event := self.link.next_event(0.05)) is not None:
            if isinstance(event, Received) and event.payload:
                opened = open_envelope(event.payload, public_key=self.key, fleet=FLEET, sender=AGGREGATOR)
                self.heard.append((decode_instruction(opened.payload), event.payload))
        return self.heard

    def has_offer(self, epoch: int | None = None) -> bool:
        """Whether the last instruction is an offer, of this epoch."""
        heard = self.listen()
        return bool(heard) and isinstance(heard[-1][0], Offer) and epoch in (None, heard[-1][0].epoch)

    def replay(self, payload: bytes) -> None:
        for _ in range(3):
            assert self.link.publish(self.topic, payload, retain=True)


def wait_for(what: Callable[[], object], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "nothing came of it"
        time.sleep(0.05)


@pytest.mark.slow
def test_agents_follow_a_restored_backup_at_once_and_refuse_what_was_recorded(tmp_path: Path, broker: Broker) -> None:
    settings = config(3, prototypes=("mlp:fp32",))
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        recorder = Recorder(simulation, "sim-0")
        log = tmp_path / "fleet" / "sim-0.log"
        backup = tmp_path / "backup"
        simulation.start_aggregator()
        for device in simulation.devices:
            simulation.start_agent(device.id)
        wait_for_rounds(simulation, 1)
        simulation.processes.kill("aggregator")
        shutil.copytree(simulation.state, backup)
        simulation.start_aggregator()
        wait_for_rounds(simulation, 3)
        wait_for(lambda: recorder.has_offer())
        simulation.processes.kill("aggregator")
        recorded = {(type(message), message.round): (message, payload) for message, payload in recorder.listen()}
        old = recorded[Job, 3][0].epoch

        shutil.rmtree(simulation.state)
        shutil.copytree(backup, simulation.state)
        journal = Journal(simulation.state / "journal.db")
        new = journal.begin_epoch(time.time())
        journal.close()
        assert completed(simulation) == 1
        simulation.start_aggregator()
        wait_for_rounds(simulation, 3)
        assert_equal(finals(simulation), undisturbed(settings))
        assert log.read_text().count(f"epoch {new}: the aggregator has begun anew") == 1
        wait_for(lambda: recorder.has_offer(new))
        again = {(type(m), m.round): payload for m, payload in recorder.listen() if m.epoch == new}
        offer = recorder.listen()[-1][0]
        taken = tmp_path / "fleet" / "sim-0" / "state" / "taken"
        wait_for(lambda: taken.is_file() and taken.read_text() == offer.model)

        def trainings() -> int:
            return log.read_text().count(" in process ")

        before = trainings()
        for kind, number in ((Job, 3), (Job, 2), (Offer, 3)):
            recorder.replay(recorded[kind, number][1])
        recorder.replay(again[Job, 2])
        wait_for(lambda: log.read_text().count("refused") >= 4, 120)
        lines = [line for line in log.read_text().splitlines() if "refused" in line]
        assert [f"its epoch {old} is older than {new}" in line for line in lines] == [True, True, True, False], lines
        assert "job refused: round 3 was begun before" in lines[3]
        assert all(" WARNING " in line for line in lines)
        assert trainings() == before
        told = tmp_path / "fleet" / "aggregator.log"
        wait_for(lambda: "sim-0': round 3: job refused" in told.read_text(), 120)

        simulation.processes.kill("sim-0")  # what the disk remembers is refused after a restart too
        simulation.start_agent("sim-0")
        wait_for(lambda: log.read_text().count("round 3 was begun before") == 2, 120)
        assert trainings() == before
        recorder.link.stop()
