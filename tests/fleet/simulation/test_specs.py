"""The specification of a prototype in a simulation."""

from fleet.data import load
from fleet.simulation.config import SimulationConfig
from fleet.simulation.specs import spec_of


def test_it_has_the_datasets_shape_and_the_fleets_latent() -> None:
    spec = spec_of("cnn:w1", SimulationConfig(latent=24), load("digits"))
    assert (str(spec), spec.input_shape, spec.classes, spec.latent) == ("cnn:w1", (1, 8, 8), 10, 24)
