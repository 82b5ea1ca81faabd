"""A bench of two devices, for tests of engines without a simulation around them."""

from __future__ import annotations

from dataclasses import replace

from fleet.engines.work import Bench
from fleet.simulation.round_message import Artifact, News
from fleet.simulation.simulation import Simulation
from quant.pack import pack_state
from tests.fleet.simulation.test_simulation import CONFIG, toy
from wire.tensors import encode

NAME = "mlp:fp32"


def bench(test: int = 60) -> Bench:
    """Two perceptrons."""
    config = replace(CONFIG, devices=2, prototypes=(NAME,))
    simulation = Simulation(config, toy(test))
    models = {group.name: group.model for group in simulation.groups}
    return Bench(devices=simulation.devices, models=models, test=(simulation.test_x, simulation.test_y))


def published(of: Bench) -> Artifact:
    """The bench's model as it is now."""
    return Artifact(encode(pack_state(of.models[NAME].state_dict(), floats="fp32")))


def news(of: Bench, number: int = 1, **other: object) -> News:
    """A round that starts from that model."""
    return News(round_number=number, published={NAME: published(of)}, **other)
