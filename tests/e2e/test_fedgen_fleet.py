"""Generators and predictors over MQTT: extractors stay on their devices, over rounds, kills and restarts."""

from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from tests.brokers import Broker
from tests.e2e.fleets import (
    assert_equal,
    config,
    finals,
    fleet,
    make_light,
    run_with_crashes,
    undisturbed,
    updates_by_round,
)
from wire.tensors import decode

SMALL = {"generator_noise_width": 4, "generator_hidden": 16, "generator_steps": 5}
POINTS = ["agent-model-fetched", "agent-update-spooled", "agent-accepted"]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
def test_predictor_devices_killed_in_every_round_come_to_the_same_models(tmp_path: Path, broker: Broker) -> None:
    """Two architectures, one of 1 bit; the generator in the aggregator's memory, extractors in the agents' folders."""
    gently = {"generator": "reference", "generated_weight": 0.5, "generated_kl": 0.5}  # the toy's steps are long
    settings = config(3, recipe="fedgen", fusion={**SMALL, **gently}, update="predictor")
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        assert run_with_crashes(simulation, "sim-1", POINTS) == POINTS
        counted = updates_by_round(simulation)
        assert all(devices == ["sim-0", "sim-1"] for devices in counted.values()), counted
        assert_equal(finals(simulation), undisturbed(replace(settings, rounds=len(counted))))
        for device in simulation.devices:
            assert list((simulation.folder / device.id / "state" / "learned").glob("*.extractor"))
        with simulation.journal() as journal:
            assert journal is not None
            kinds = {update.kind for number in counted for update in journal.updates(number)}
            generator = journal.current()["generator:reference"]
        assert kinds == {"predictor"}
        assert generator.round == len(counted)
        header, body = open_artifact(Blobs(simulation.state / "blobs").read(generator.digest))
        assert decode(body)["labels"].sum() == pytest.approx(1.0, abs=1e-3)
        assert header.recipe == "fedgen"


@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
def test_a_light_device_takes_part_in_every_round(tmp_path: Path, broker: Broker) -> None:
    settings = config(2, recipe="edgestill", fusion=SMALL, source="none", prototypes=("mlp:fp32",))
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        board = simulation.folder / "sim-1"
        make_light(simulation, "sim-1")
        simulation.start_aggregator()
        for device in simulation.devices:
            simulation.start_agent(device.id)
        list(simulation.rounds())
        with simulation.journal() as journal:
            assert journal is not None
            kinds = {n: {u.device: u.kind for u in journal.updates(n)} for n in (1, 2)}
            sizes = [u.size for n in (1, 2) for u in journal.updates(n) if u.device == "sim-1"]
        assert kinds == {n: {"sim-0": "state", "sim-1": "predictor"} for n in (1, 2)}
        assert max(sizes) < 1000
        assert (board / "state" / "current.onnx").exists()
