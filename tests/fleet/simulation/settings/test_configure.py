"""From settings, as they are written, to a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import ConfigError
from fleet.simulation.config import DEFAULT_ENGINE, SimulationConfig
from fleet.simulation.settings.configure import configure

pytestmark = pytest.mark.light


def test_nothing_said_is_the_configuration_s_own_default() -> None:
    assert configure({}) == SimulationConfig(engine=DEFAULT_ENGINE)


def test_settings_reach_the_configuration() -> None:
    config = configure(
        {
            "local_steps": 5,
            "lr": 0.5,
            "recipe": "fedprox",
            "prototypes": "cnn:w1, mlp:fp32",
            "option": ["min_size=0", "equal=no"],
            "fusion": {"weigh": "uniform"},
            "source_classes": "0,2",
            "attack": "faulty:2",
            "batch_devices": "off",
        }
    )
    assert (config.training.steps, config.training.epochs, config.training.lr) == (5, None, 0.5)
    assert config.training.prox == 0.003, "what the recipe says"
    assert (config.prototypes, config.options) == (("cnn:w1", "mlp:fp32"), {"min_size": 0, "equal": False})
    assert (config.fusion, config.source_classes, len(config.attackers)) == ({"weigh": "uniform"}, (0, 2), 2)
    assert config.batch_devices == 1


def test_the_default_learning_rate_has_a_name() -> None:
    assert configure({"lr": "auto"}) == configure({})
    assert configure({"lr": "0.5"}).training.lr == 0.5, "a flag is a text"


def test_a_table_is_what_a_repeated_flag_says() -> None:
    table = {"fusion": {"steps": 5, "keep_start": True}, "option": {"equal": False, "min_size": 3}, "recipe": "feddf"}
    words = {"fusion": ["steps=5", "keep_start=true"], "option": ["equal=no", "min_size=3"], "recipe": "feddf"}
    assert configure(table) == configure(words)
    assert configure(table).options == {"equal": False, "min_size": 3}


def test_devices_are_boards_in_virtual_time() -> None:
    config = configure({"devices": "rpi4:2,rpi-zero2w", "virtual_clock": True, "deadline": 60.0})
    assert config.virtual is not None
    assert (config.devices, config.virtual.boards) == (3, ("rpi-4", "rpi-4", "rpi-zero-2w"))
    assert config.virtual.deadline_s == 60.0
    assert configure({"devices": "4"}).virtual is None
    assert configure({"deadline": 3600.0}).virtual is None, "the default may be said"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"recipe": "fedvag"}, "did you mean 'fedavg'"),
        ({"local_epochs": 1, "local_steps": 1}, "give either --local-epochs or --local-steps, not both"),
        ({"fusion": {"stepz": 1}}, "did you mean 'steps'"),
        ({"lr": "fast"}, "--lr is 'fast'; give a number above 0 and at most 1000, such as 0.03, or auto"),
        ({"rounds": 0}, "--rounds 0; give at least 1"),
        ({"devices": "0"}, "--devices 0; give at least 1"),
        ({"devices": "rpi9:2"}, "no board 'rpi9'"),
        ({"deadline": 3.0}, "--deadline requires --virtual-clock"),
        ({"virtual_clock": True, "deadline": 0.0}, "--deadline 0; give at least 1e-06"),
        ({"source_classes": "a"}, "--source-classes 'a': give class numbers from 0, such as 0,1,2"),
        ({"batch_devices": "some"}, "--batch-devices 'some': give auto, off, or how many devices"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        configure(settings)
