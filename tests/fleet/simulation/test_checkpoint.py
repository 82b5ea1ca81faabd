"""A run that was ended after any round goes on to the models of one that was not, bit by bit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core.errors import DataError
from fleet.simulation.checkpoint import Checkpoints
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from tests.fleet.simulation.test_simulation import CONFIG, SMALL, toy

HALF = replace(CONFIG, fraction=0.5)


def models(simulation: Simulation) -> list[torch.Tensor]:
    return [w for group in simulation.groups for w in group.state.values()]


def cut_after(config: SimulationConfig, folder: Path, number: int) -> Simulation:
    """A new simulation that goes on where another, which had a checkpoint after each round, was ended."""
    first, checkpoints = Simulation(config, toy()), Checkpoints(folder)
    for n in range(1, number + 1):
        first.run_round(n)
        checkpoints.write(first, n)
    second = Simulation(config, toy())
    assert Checkpoints(folder).restore(second) == number
    return second


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": "fedavgm"},
        {"recipe": "fedgen", "fusion": SMALL, "update": "predictor"},
        {"recipe": "feddistill", "prototypes": ("mlp:fp32",)},
        {"recipe": "edgestill", "fusion": SMALL, "source": "none"},
        {"recipe": "fedavg", "fusion": {"personal": True}},
    ],
    ids=lambda changes: changes["recipe"],
)
def test_a_resumed_run_comes_to_the_same_bits(changes: dict[str, object], tmp_path: Path) -> None:
    config = replace(HALF, **changes)
    whole, resumed = Simulation(config, toy()), cut_after(config, tmp_path, 2)
    expected = [whole.run_round(n) for n in (1, 2, 3, 4)]
    for n in (3, 4):
        told = resumed.run_round(n).to_json()
        assert {**told, "seconds": 0, "seconds_by": 0} == {**expected[n - 1].to_json(), "seconds": 0, "seconds_by": 0}
    assert all(torch.equal(a, b) for a, b in zip(models(whole), models(resumed), strict=True))
    assert whole.memory.facts == resumed.memory.facts
    assert [d.kept for d in whole.devices] == [d.kept for d in resumed.devices]


def test_only_the_last_round_and_what_devices_keep_stay_on_disk(tmp_path: Path) -> None:
    config = replace(HALF, update="predictor")
    resumed = cut_after(config, tmp_path, 3)
    names = sorted(p.name for p in (tmp_path / "checkpoint").glob("*.safetensors"))
    assert names == ["3.safetensors"]
    kept = sorted(p.name.partition(".")[0] for p in (tmp_path / "checkpoint" / "kept").iterdir())
    assert kept == sorted(d.id for d in resumed.devices if d.kept)  # one file each


def test_a_kill_between_two_files_leaves_the_round_before(tmp_path: Path) -> None:
    config = replace(HALF, update="predictor")
    simulation, checkpoints = Simulation(config, toy()), Checkpoints(tmp_path)
    simulation.run_round(1)
    checkpoints.write(simulation, 1)
    before = {d.id: dict(d.kept) for d in simulation.devices}
    simulation.run_round(2)
    for device in simulation.changed:  # the devices' files are there, that of the round is not
        checkpoints._path_of(device.id, 2).write_bytes(b"half")
    resumed = Simulation(config, toy())
    assert Checkpoints(tmp_path).restore(resumed) == 1
    assert {d.id: d.kept for d in resumed.devices} == before


def test_without_a_checkpoint_nothing_is_restored(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).restore(Simulation(CONFIG, toy())) == 0


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}"], ids=["empty", "junk", "nothing-in-it"]
)
def test_a_checkpoint_that_cannot_be_read_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "4.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"4\.safetensors"):
        Checkpoints(tmp_path).restore(Simulation(CONFIG, toy()))


def test_a_configuration_is_read_back_as_it_was_told() -> None:
    import json

    config = replace(CONFIG, source_classes=(1, 2), fusion={"steps": 3}, options={"min_size": 0})
    assert SimulationConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
