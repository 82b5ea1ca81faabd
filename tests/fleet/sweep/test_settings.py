"""Settings as flags, and what `simulate` makes of these."""

import pytest

from core.errors import ConfigError
from edgestill.cli.simulation.sweep import _checker, _flags
from fleet.simulation.config import SimulationConfig
from fleet.sweep.settings import flags_of

FLAGS, CHECK = _flags(), _checker()
TOLD = {"alpha": 0.1, "attack": "", "fusion": {"steps": 5, "keep_start": True}, "option": {"equal": False}}


def checked(**settings: object) -> SimulationConfig:
    return CHECK(flags_of(settings, FLAGS))


def test_nothing_said_is_what_simulate_takes() -> None:
    config = checked()
    assert (config.dataset, config.devices, config.training.epochs, config.recipe) == ("digits", 12, 2, "fedavg")


def test_settings_reach_the_configuration() -> None:
    config = checked(
        local_steps=5,
        lr=0.5,
        recipe="fedprox",
        prototypes="cnn:w1, mlp:fp32",
        option={"min_size": 0},
        fusion={"weigh": "uniform"},
        source_classes="0,2",
        attack="faulty:2",
    )
    assert (config.training.steps, config.training.epochs, config.training.lr) == (5, None, 0.5)
    assert config.training.prox == 0.01, "what the recipe says"
    assert (config.prototypes, config.options) == (("cnn:w1", "mlp:fp32"), {"min_size": 0})
    assert (config.fusion, config.source_classes, len(config.attackers)) == ({"weigh": "uniform"}, (0, 2), 2)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"recipe": "fedvag"}, "did you mean 'fedavg'"),
        ({"local_epochs": 1, "local_steps": 1}, "either"),
        ({"fusion": {"stepz": 1}}, "did you mean 'steps'"),
        ({"rounds": 0}, "give at least 1"),
        ({"alpha": "x"}, "alpha"),
    ],
)
def test_what_simulate_would_refuse_is_refused(settings: dict, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        checked(**settings)


def test_flags_are_those_of_the_command_line() -> None:
    assert flags_of(TOLD, FLAGS) == [
        "--alpha=0.1",
        "--attack=",
        "--fusion=steps=5",
        "--fusion=keep_start=true",
        "--option=equal=no",
    ]


def test_what_is_the_sweep_s_own_business_is_no_setting() -> None:
    assert not {"out_dir", "out", "force", "quiet", "json", "as_json", "dry_run", "resume"} & FLAGS.keys()
    assert {"recipe", "alpha", "seed", "local_epochs", "fusion", "attack", "dataset"} <= FLAGS.keys()
    assert (FLAGS["alpha"].kind, FLAGS["rounds"].kind, FLAGS["fusion"].repeated) == (float, int, True)
