"""Light and full devices of the same prototypes learn together over MQTT."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from fleet.mqtt.fleet import MqttSimulation
from models.build import build
from models.roles import EXTRACTOR_ROUND, slice_state
from quant.onnx.session import max_difference, open_session, run_graph
from quant.onnx.weights import read_weights
from quant.pack import load_packed, pack
from tests.brokers import Broker
from tests.e2e.fleets import config, finals, fleet, make_light, toy
from wire.tensors import Packed, Tensor

PROTOTYPES = ("mlp:fp32", "mlp:w1")
GENERATOR = {"generator_noise_width": 4, "generator_hidden": 16, "generator_steps": 5}
RECIPES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "feddf": {"source": "noise", "source_size": 12, "fusion": {"steps": 5}},
    "fedgen": {"fusion": GENERATOR},
    "edgestill": {"source": "none", "fusion": GENERATOR},
}
LIGHT = {"sim-2": "mlp:fp32", "sim-3": "mlp:w1"}  # sim-0 and sim-1 are full ones of the same prototypes
SECONDS = 300.0  # ends a test that hangs


def start(simulation: MqttSimulation) -> None:
    simulation.start_aggregator()
    for device in simulation.devices:
        simulation.start_agent(device.id)


def wait_for_the_offer(board: Path, rounds: int) -> None:
    """Until the board has the fused model of the last round."""
    deadline = time.monotonic() + SECONDS
    while True:
        if (board / "state" / "current.json").exists():
            about = json.loads((board / "state" / "current.json").read_text())
            if (about["round"], about["trained_here"]) == (rounds, False):
                return
        assert time.monotonic() < deadline, f"{board.name} has no offer of round {rounds}"
        time.sleep(0.1)


def at_its_precision(simulation: MqttSimulation, prototype: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    model = build(next(g for g in simulation.simulation.groups if g.name == prototype).model.spec)
    load_packed(model, tensors)
    return pack(model, floats="fp32")


def close(ours: Tensor, theirs: Tensor) -> bool:
    """Equal; scale and mean of levels up to a step of float16, as tests/quant/test_levels.py explains."""
    if not isinstance(ours, Packed) or not isinstance(theirs, Packed):
        return np.array_equal(np.asarray(ours, np.float32), np.asarray(theirs, np.float32))
    near = np.abs(ours.dequantize() - theirs.dequantize()).max() <= 2e-3 * np.float32(theirs.scale.max())
    return bool(near) and np.array_equal(ours.levels, theirs.levels)


@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
@pytest.mark.parametrize(
    ("recipe", "rounds"),
    # five processes that import torch, for each round of each recipe
    [("fedavg", 2), *(pytest.param(recipe, 4, marks=pytest.mark.slow) for recipe in RECIPES)],
)
def test_light_devices_end_with_the_fused_model(tmp_path: Path, broker: Broker, recipe: str, rounds: int) -> None:
    """Every update counts in every round, and the board's file has the fused extractor and predictor."""
    settings = config(rounds, devices=4, prototypes=PROTOTYPES, recipe=recipe, **RECIPES[recipe])
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        for device in LIGHT:
            make_light(simulation, device)
        start(simulation)
        results = list(simulation.rounds())
        for device, prototype in LIGHT.items():
            wait_for_the_offer(simulation.folder / device, rounds)
            published = finals(simulation)[prototype]
            ours = read_weights((simulation.folder / device / "state" / "current.onnx").read_bytes())
            torchs = at_its_precision(simulation, prototype, published)
            assert ours.keys() == torchs.keys()
            assert [name for name in torchs if not close(ours[name], torchs[name])] == [], device
        with simulation.journal() as journal:
            assert journal is not None
            for number in range(1, rounds + 1):
                updates = journal.updates(number)
                kinds = {u.device: u.kind for u in updates}
                assert kinds == {"sim-0": "state", "sim-1": "state", **dict.fromkeys(LIGHT, "predictor")}
                assert not any("other_extractor" in u.metrics for u in updates)
            headers = [
                open_artifact(Blobs(simulation.state / "blobs").read(m.digest))[0]
                for name, m in journal.current().items()
                if name in PROTOTYPES
            ]
        assert [header.metrics[EXTRACTOR_ROUND] for header in headers] == [rounds, rounds]
        assert not any(result.lost for result in results)


@pytest.mark.slow  # as above
@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
def test_where_extractors_stay_on_their_devices_a_light_one_keeps_that_of_its_kit(
    tmp_path: Path, broker: Broker
) -> None:
    settings = config(2, devices=4, prototypes=PROTOTYPES, recipe="fedgen", fusion=GENERATOR, update="predictor")
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        for device in LIGHT:
            make_light(simulation, device)
        kits = {d: read_weights((simulation.folder / d / "model.onnx").read_bytes()) for d in LIGHT}
        start(simulation)
        list(simulation.rounds())
        for device, prototype in LIGHT.items():
            wait_for_the_offer(simulation.folder / device, 2)
            ours = read_weights((simulation.folder / device / "state" / "current.onnx").read_bytes())
            assert all(close(ours[name], kit) for name, kit in slice_state(kits[device], "extractor").items())
            fused = at_its_precision(simulation, prototype, finals(simulation)[prototype])
            assert close(ours["predictor.weight"], fused["predictor.weight"])
            assert not close(ours["predictor.weight"], kits[device]["predictor.weight"])


@pytest.mark.slow  # as above
@pytest.mark.broker
@pytest.mark.parametrize("broker", ["mosquitto"], indirect=True)
@pytest.mark.parametrize("point", ["agent-model-fetched", "child-trained", "agent-update-spooled", "agent-accepted"])
def test_a_light_device_killed_in_between_has_a_whole_model_and_goes_on(
    tmp_path: Path, broker: Broker, point: str
) -> None:
    settings = config(3, devices=4, prototypes=PROTOTYPES)
    x = toy().x_test
    with fleet(settings, tmp_path / "fleet", broker.config) as simulation:
        for device in LIGHT:
            make_light(simulation, device)
        simulation.start_aggregator()
        for device in simulation.devices:
            crash = {"EDGESTILL_CRASH_AT": f"{point}:2"} if device.id == "sim-3" else {}
            simulation.start_agent(device.id, **crash)
        deadline = time.monotonic() + 2 * SECONDS
        while point != "child-trained" and not simulation.processes.ended("sim-3"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        graph = simulation.folder / "sim-3" / "state" / "current.onnx"
        if point != "child-trained":  # there only the child dies, and the agent starts another
            assert np.isfinite(run_graph(open_session(graph), x)).all()
            simulation.start_agent("sim-3")
        list(simulation.rounds())
        wait_for_the_offer(simulation.folder / "sim-3", 3)
        fused = build(next(g for g in simulation.simulation.groups if g.name == "mlp:w1").model.spec)
        load_packed(fused, finals(simulation)["mlp:w1"])
        assert max_difference(run_graph(open_session(graph), x), _logits(fused, x)) < 0.02  # a step of float16


def _logits(model: Any, x: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        return np.asarray(model.eval()(torch.from_numpy(x)))
