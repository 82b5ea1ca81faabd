"""Devices that are lost while a run goes on: what is worth a warning, and what ends it."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from edge_agent.training.params import DEFAULTS
from fleet.results.run_file import PrototypeResult, RoundResult, Run
from fleet.simulation.warnings.lost_devices import LostDevices, LostRunError

TRAINING = {**asdict(DEFAULTS), "lr": 0.5}
WHY = "training diverged: the gradient is not finite"


def result(number: int, lost: int, asked: int = 20, train_loss: float | None = 1.0) -> RoundResult:
    fused = PrototypeResult(
        accuracy=0.5, loss=1.0, train_loss=train_loss, devices=asked - lost, bytes_up=1, bytes_down=1
    )
    return RoundResult(
        round=number, prototypes={"mlp:fp32": fused}, seconds=1.0, lost={f"sim-{n:02}": WHY for n in range(lost)}
    )


def run_of(*rounds: RoundResult) -> Run:
    config = {"training": TRAINING, "recipe": "fedavg", "rounds": 100}
    return Run(config=config, fleet=[{"device": "sim-00", "labels": [1] * 10}], rounds=list(rounds))


def warnings(*rounds: RoundResult) -> list[str]:
    told: list[str] = []
    lost = LostDevices(TRAINING, told.append)
    for one in rounds:
        lost.check(one, run_of(*rounds))
    return told


def test_up_to_a_tenth_is_not_worth_a_warning() -> None:
    assert warnings(result(1, 2), result(2, 0), result(3, 0, asked=0)) == []


def test_more_is_told_once_with_the_remedy_and_again_when_it_is_others() -> None:
    first, second = warnings(result(1, 3), result(2, 3), result(3, 4), result(4, 4))
    assert first == (
        f"round 1: 3 of 20 devices lost: sim-00, sim-01, sim-02: {WHY}; where training diverges, "
        f"a smaller learning rate helps: --lr is 0.5, try {DEFAULTS.lr:.3g}"
    )
    assert second == f"round 3: 4 of 20 devices lost: sim-00, sim-01, sim-02, sim-03: {WHY}"


def test_half_is_a_warning_and_more_than_half_the_end() -> None:
    assert len(warnings(result(1, 10))) == 1
    run = run_of(result(1, 11))
    with pytest.raises(
        LostRunError, match=r"round 1: 11 of 20 devices lost: .* and 7 more: .* --lr is 0\.5, try"
    ) as ended:
        LostDevices(TRAINING, print).check(run.rounds[0], run)
    assert ended.value.exit_code == 7
    assert ended.value.run is run


def test_a_loss_beyond_all_bounds_is_told_once() -> None:
    (line,) = warnings(result(1, 0, train_loss=20.0), result(2, 0, train_loss=1e5), result(3, 0, train_loss=2e5))
    assert line.startswith("round 2: local training does not converge, its loss is mlp:fp32 1e+05; where")


def last_of(accuracy: float, *, lr: float = 0.5, attack_share: float = 0.0) -> list[str]:
    """Warnings after a last round that came to `accuracy`."""
    fused = PrototypeResult(accuracy=accuracy, loss=1.0, train_loss=1.0, devices=1, bytes_up=1, bytes_down=1)
    last = RoundResult(
        round=3, prototypes={"mlp:fp32": fused}, seconds=1.0, devices={"sim-01": {"weight": attack_share}}
    )
    training = {**TRAINING, "lr": lr}
    config = {"training": training, "recipe": "fedavg", "rounds": 3}
    fleet = [{"device": "sim-00", "labels": [1] * 10}, {"device": "sim-01", "labels": [1] * 10, "attack": "faulty"}]
    told: list[str] = []
    LostDevices(training, told.append).check(last, Run(config=config, fleet=fleet, rounds=[last]))
    assert last.warnings == []  # the run may be resumed
    return told


def test_a_run_that_ends_near_guessing_says_so_with_what_to_try() -> None:
    assert last_of(0.21) == []
    (line,) = last_of(0.19)
    assert line == (
        f"after the last round, mlp:fp32 19.0 %: little better than guessing; --lr is 0.5, try {DEFAULTS.lr:.3g}"
    )
    assert last_of(0.19, lr=DEFAULTS.lr)[0].endswith("guessing; try more --rounds, or more --local-epochs")


def test_where_attackers_have_a_share_they_are_named_as_the_cause() -> None:
    (line,) = last_of(0.1, attack_share=0.36)
    assert line.endswith("; adversarial devices have 36.0 % of the averages, which --recipe edgestill would exclude")


def test_a_round_keeps_its_warnings() -> None:
    one = result(1, 3)
    told: list[str] = []
    LostDevices(TRAINING, told.append).check(one, run_of(one))
    assert one.warnings == told
    assert RoundResult.from_json(one.to_json()).warnings == told
    assert "warnings" not in result(1, 0).to_json()
