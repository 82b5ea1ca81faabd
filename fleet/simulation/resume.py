"""Resumes an interrupted run: its configuration and its rounds so far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError, DataError
from fleet.results.run_file import SCHEMA, RoundResult, Run, read_run

if TYPE_CHECKING:
    from fleet.simulation.checkpoint import Checkpoints
    from fleet.simulation.config import SimulationConfig
    from fleet.simulation.simulation import Simulation

__all__ = ["MAY_CHANGE", "is_resumable", "restore", "resumed_config"]

#: Fields that may change on resume: the number of rounds, where devices train, and trackers.
MAY_CHANGE = ("rounds", "engine", "workers", "batch_devices", "address", "track")


def is_resumable(config: SimulationConfig) -> bool:
    """Whether runs with this configuration have checkpoints."""
    return config.transport == "memory" and config.virtual is None


def resumed_config(folder: Path, changes: dict[str, Any]) -> SimulationConfig:
    """The configuration of the run in `folder`, with `changes` to fields of `MAY_CHANGE`."""
    from dataclasses import replace

    from fleet.simulation.config import SimulationConfig
    from fleet.simulation.own_code.named import refuse_files_inside

    stored = read_run(folder)
    if stored["schema"] != SCHEMA:
        raise ConfigError(
            f"{folder}: a run of an older edgestill, whose 1-bit models were distilled and scored at full precision; "
            "start a new run"
        )
    refuse_files_inside(stored["config"], folder)
    config = SimulationConfig.from_json(stored["config"])
    if not is_resumable(config):
        raise ConfigError(f"{folder}: a run over MQTT or in virtual time cannot be resumed; start a new run")
    assert changes.keys() <= set(MAY_CHANGE), changes
    return replace(config, **changes)


def restore(simulation: Simulation, run: Run, folder: Path, checkpoints: Checkpoints) -> list[RoundResult]:
    """Load the last checkpoint into the simulation and return the rounds up to it."""
    stored = read_run(folder)
    if stored["fleet"] != run.fleet:
        raise DataError(f"{folder}: the dataset differs from the one that the run started with; start a new run")
    done = checkpoints.restore(simulation)
    if stored["rounds"] and not done:
        raise DataError(
            f"{folder}: run.json has {len(stored['rounds'])} rounds, but there is no checkpoint to resume from; "
            "start a new run"
        )
    rounds = [RoundResult.from_json(facts) for facts in stored["rounds"][:done]]
    if len(rounds) != done:
        raise DataError(f"{folder}: a checkpoint of round {done}, but run.json has {len(rounds)} rounds")
    if done > simulation.config.rounds:
        raise ConfigError(f"--rounds {simulation.config.rounds}: {folder} has {done} rounds already; give more")
    return rounds
