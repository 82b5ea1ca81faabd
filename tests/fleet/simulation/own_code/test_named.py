"""Names of users' code in settings, the files behind them, and how far they reach."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core import own_code
from core.errors import ConfigError
from fleet.simulation.config import SimulationConfig
from fleet.simulation.own_code.named import lend_files, lent_only, names_in, refuse_files_inside
from fleet.simulation.own_code.objects import with_names
from fleet.simulation.settings.configure import configure
from tests.fleet.simulation.own_code import own

SETTINGS: dict[str, Any] = {
    "dataset": "own.py:data",
    "devices": "4",
    "prototypes": "own.py:MyNet:fp32,own.py:NAMED:w1,cnn:w1",
    "partition": "own.py:halves",
    "recipe": "own.py:MINE",
    "fusion": {"weigh": "own.py:largest"},
    "attack": "own.py:drift=2:1,own.py:shifted@3",
    "objective": "own.py:focal",
}


@pytest.fixture(autouse=True)
def _in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(own_code, "_lent", {})
    shutil.copy(str(own.__file__), tmp_path / "own.py")
    monkeypatch.chdir(tmp_path)


def test_every_setting_that_may_name_code_is_looked_at() -> None:
    assert [(kind, name) for _, kind, name in names_in({**SETTINGS, "own_models": {"MyNet": "own.py:MyNet"}})] == [
        ("model", "own.py:MyNet"),
        ("model", "NAMED"),
        ("model", "cnn"),
        ("dataset", "own.py:data"),
        ("partition", "own.py:halves"),
        ("recipe", "own.py:MINE"),
        ("objective", "own.py:focal"),
        ("part", "weigh.own.py:largest"),
        ("attack", "own.py:drift"),
        ("attack", "own.py:shifted"),
    ]


def test_a_configuration_knows_its_files_and_finds_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(SETTINGS)
    assert config.prototypes == ("MyNet:fp32", "NAMED:w1", "cnn:w1")
    assert config.own_models == {"MyNet": "own.py:MyNet", "NAMED": "own.py:NAMED"}
    monkeypatch.setattr(own_code, "_lent", {})
    again = SimulationConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert lent_only({"prototypes": config.prototypes, "own_models": config.own_models, **again.to_json()}) == []


def test_a_run_does_not_execute_files_of_its_own_folder(tmp_path: Path) -> None:
    facts = configure(SETTINGS).to_json()
    with pytest.raises(ConfigError, match=r"names own.py inside itself, which is not executed"):
        refuse_files_inside(facts, tmp_path)
    refuse_files_inside(facts, tmp_path / "run")


def test_what_a_program_lends_does_not_reach_ray_but_files_and_data_do() -> None:
    given = with_names({"prototypes": [own.MyNet], "dataset": own.data()})
    with pytest.raises(ConfigError, match="MyNet is known in this process alone, which --engine ray does not reach"):
        configure({**given, "prototypes": ",".join(given["prototypes"]), "engine": "ray", "devices": "2"})
    configure({**SETTINGS, "dataset": given["dataset"], "engine": "ray"})


def test_agents_over_mqtt_have_no_code_of_users() -> None:
    with pytest.raises(ConfigError, match=r"own.py:MyNet is your own code, which agents over MQTT do not have"):
        configure({"prototypes": "own.py:MyNet:fp32", "devices": "2", "transport": "mqtt"})
    configure({"partition": "own.py:halves", "dataset": "own.py:data", "attack": "own.py:shifted:1"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"prototypes": "own.py:MyNett:fp32"}, "own.py: has no 'MyNett'; did you mean 'MyNet'"),
        ({"prototypes": "own.py:MyNet"}, "prototype 'MyNet': give its precision too, such as MyNet:fp32"),
        ({"prototypes": "own.py:MyNet:w3"}, "w3"),
        ({"prototypes": "none.py:MyNet:w1"}, "none.py: no such file"),
        ({"prototypes": "own.py:MyNet:w1,./own.py:MyNet:fp32"}, "two prototypes are called 'MyNet'"),
        ({"objective": "focal"}, "unknown objective 'focal'; give FILE.py:NAME"),
        ({"objective": "own.py:focal", "train": "own.py:loop"}, "give either --objective or --train"),
        ({"objective": "own.py:focal", "recipe": "fedgen"}, "recipe fedgen has its own objective on devices"),
        ({"fusion": ["weigh=own.py:broken"]}, "part weigh.own.py:broken is a int, expected a function"),
        ({"attack": "own.py:driftt:1"}, "has no 'driftt'; did you mean 'drift'"),
    ],
)
def test_mistakes_are_one_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        configure(given)
    assert "\n" not in str(caught.value)


def test_a_file_of_settings_without_names_loads_nothing() -> None:
    lend_files({"prototypes": "cnn:fp32", "dataset": "digits", "attack": "", "fusion": ["steps=3"]})
    assert own_code.names("model") == ()
