"""A simulation's state on disk after every round, so that `--resume` continues to bit-identical results.

    checkpoint/7.safetensors        after round 7: state/PROTOTYPE/TENSOR, memory/NAME, and `guide`, the bytes of the
                                    side artifact; the rest as JSON in the file's metadata
    checkpoint/kept/sim-03.7        the local state of device sim-03 since round 7: its files by name

The metadata lists which round's file belongs to each device. A round writes the files of its devices first, then its
own, then removes files that are no longer referenced: a kill at any instant leaves one complete checkpoint. All
randomness is derived from the seed and the round, so no generator state is stored. No pickle.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from aggregator.fusion.types import Memory
from core.errors import DataError
from core.files import read_regular, write_atomic
from fleet.simulation.round_message import Artifact, PublishedSideArtifact
from fleet.simulation.simulation import Simulation
from wire.messages import ModelHeader

__all__ = ["Checkpoints"]

MAX_CHECKPOINT = 2**36

STATE, MEMORY, SIDE_ARTIFACT = "state/", "memory/", "guide"  # historical name, kept so that old checkpoints load


class Checkpoints:
    """The checkpoints of a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoint"
        self._kept: dict[str, int] = {}  # by device: the round of its file

    def write(self, simulation: Simulation, round_number: int) -> None:
        """Write the state after round `round_number`, durably."""
        (self.folder / "kept").mkdir(parents=True, exist_ok=True)
        for device in simulation.changed:
            path = self._path_of(device.id, round_number)
            write_atomic(path, save({name: _as_tensor(data) for name, data in device.kept.items()}))
        self._kept |= {device.id: round_number for device in simulation.changed}
        simulation.changed.clear()
        side_artifact = simulation.side_artifact
        facts = {
            "round": round_number,
            "memory": simulation.memory.facts,
            "guide": None if side_artifact is None else msgspec.to_builtins(side_artifact.header),
            "kept": self._kept,
        }
        write_atomic(self._path(round_number), save(_tensors(simulation), metadata={"facts": json.dumps(facts)}))
        self._tidy(round_number)

    def clear(self) -> None:
        """Remove the checkpoints of an earlier run."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def states(self) -> tuple[int, dict[str, dict[str, Tensor]]]:
        """The round of the last checkpoint, 0 if there is none, and its models by prototype."""
        round_number = self._last()
        tensors = _read(self._path(round_number))[0] if round_number else {}
        states: dict[str, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith(STATE):
                prototype, _, tensor = name.removeprefix(STATE).rpartition("/")
                states.setdefault(prototype, {})[tensor] = value
        return round_number, states

    def _last(self) -> int:
        return max((int(p.stem) for p in self.folder.glob("*.safetensors") if p.stem.isdecimal()), default=0)

    def restore(self, simulation: Simulation) -> int:
        """Load the last checkpoint into the simulation and return its round, 0 if there is none."""
        round_number = self._last()
        if not round_number:
            return 0
        tensors, facts = _read(self._path(round_number))
        try:
            for group in simulation.groups:
                group.state = {name: tensors[f"{STATE}{group.name}/{name}"] for name in group.state}
            named = {name.removeprefix(MEMORY): w for name, w in tensors.items() if name.startswith(MEMORY)}
            simulation.memory = Memory(tensors=named, facts=facts["memory"])
            if facts["guide"] is not None:
                header = msgspec.convert(facts["guide"], ModelHeader)
                simulation.side_artifact = PublishedSideArtifact(
                    header, Artifact(tensors[SIDE_ARTIFACT].numpy().tobytes())
                )
            self._kept = dict(facts["kept"])
            for device in simulation.devices:
                if device.id in self._kept:
                    files, _ = _read(self._path_of(device.id, self._kept[device.id]))
                    device.kept.update({name: data.numpy().tobytes() for name, data in files.items()})
        except (KeyError, msgspec.ValidationError) as error:
            raise DataError(
                f"{self._path(round_number)}: of another fleet, {error} is missing; start a new run"
            ) from error
        return round_number

    def _path(self, round_number: int) -> Path:
        return self.folder / f"{round_number}.safetensors"

    def _path_of(self, device: str, round_number: int) -> Path:
        return self.folder / "kept" / f"{device}.{round_number}"

    def _tidy(self, round_number: int) -> None:
        wanted = {self._path(round_number), *(self._path_of(device, n) for device, n in self._kept.items())}
        for path in (*self.folder.glob("*"), *(self.folder / "kept").glob("*")):
            if path not in wanted and path.is_file():
                with suppress(FileNotFoundError):
                    path.unlink()


def _tensors(simulation: Simulation) -> dict[str, Tensor]:
    tensors = {
        f"{STATE}{group.name}/{name}": w.contiguous() for group in simulation.groups for name, w in group.state.items()
    }
    tensors |= {f"{MEMORY}{name}": w.detach().cpu().contiguous() for name, w in simulation.memory.tensors.items()}
    if simulation.side_artifact is not None:
        tensors[SIDE_ARTIFACT] = _as_tensor(simulation.side_artifact.body.data)
    return {name: w.clone() for name, w in tensors.items()}  # safetensors rejects tensors that share memory


def _as_tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def _read(path: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    try:
        data = read_regular(path, MAX_CHECKPOINT)
        length = int.from_bytes(data[:8], "little")
        described = json.loads(data[8 : 8 + length]).get("__metadata__", {})
        return load(data), json.loads(described.get("facts", "{}"))
    except (OSError, SafetensorError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: not a readable checkpoint ({error}); start a new run with --force") from error
