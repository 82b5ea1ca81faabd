"""The devices' own models below a summary."""

import pytest

from edgestill.cli.own_models import print_own_models
from fleet.results.run_file import RoundResult

DEVICES = {
    "sim-0": {"own_accuracy": 0.91, "whole_accuracy": 0.31},
    "sim-1": {"own_accuracy": 0.97, "whole_accuracy": 0.21},
    "sim-2": {"own_accuracy": 0.05, "whole_accuracy": 0.11},
}
FLEET = [{"device": "sim-0"}, {"device": "sim-1"}, {"device": "sim-2", "attack": "faulty"}]


def shown(capsys: pytest.CaptureFixture[str], devices: dict) -> str:
    print_own_models(RoundResult(round=3, prototypes={}, seconds=1.0, devices=devices), FLEET)
    return capsys.readouterr().out


def test_mean_worst_and_best_are_of_honest_devices_and_attackers_have_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own, whole = shown(capsys, DEVICES).splitlines()[-3:-1]
    assert own.split("  ")[0] == "its own slice"
    assert all(text in own for text in ("94.0 %", "91.0 % (sim-0)", "97.0 % (sim-1)"))
    assert all(text in whole for text in ("26.0 %", "21.0 % (sim-1)", "31.0 % (sim-0)"))
    assert "attackers' own models, mean: 5.0 % on its own slice, 11.0 % on the whole test set" in shown(capsys, DEVICES)


def test_personal_models_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_own_models(RoundResult(round=3, prototypes={}, seconds=1.0, devices=DEVICES), FLEET, personal=True)
    assert "each device's personal model after its training" in capsys.readouterr().out


def test_nothing_is_said_where_nothing_was_scored(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, {"sim-0": {"weight": 0.5}}) == ""
