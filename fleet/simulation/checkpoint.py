"""A simulation's state on disk after every round, so that `--resume` goes on from it to the same bits.

    checkpoint/7.safetensors        after round 7: state/PROTOTYPE/TENSOR, memory/NAME, and `guide`, the bytes of the
                                    side artifact; facts as JSON in the metadata
    checkpoint/kept/sim-03.7        what device sim-03 has kept since round 7, its files by name

Which file of which round is each device's stands in the facts. A round writes the files of its devices first, then its
own, then removes what nobody names any more: a kill at any instant leaves the checkpoint of one round whole. All
randomness follows from the seed and the round, so nothing of it is kept. Never pickle.
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

STATE, MEMORY, SIDE_ARTIFACT = "state/", "memory/", "guide"  # its name in files since the first ones


class Checkpoints:
    """The checkpoints of a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoint"
        self._kept: dict[str, int] = {}  # device: the round of its file

    def write(self, simulation: Simulation, number: int) -> None:
        """Keep what the simulation is after round `number`, durably."""
        (self.folder / "kept").mkdir(parents=True, exist_ok=True)
        for device in simulation.changed:
            path = self._path_of(device.id, number)
            write_atomic(path, save({name: _as_tensor(data) for name, data in device.kept.items()}))
        self._kept |= {device.id: number for device in simulation.changed}
        simulation.changed.clear()
        side_artifact = simulation.side_artifact
        facts = {
            "round": number,
            "memory": simulation.memory.facts,
            "guide": None if side_artifact is None else msgspec.to_builtins(side_artifact.header),
            "kept": self._kept,
        }
        write_atomic(self._path(number), save(_tensors(simulation), metadata={"facts": json.dumps(facts)}))
        self._tidy(number)

    def clear(self) -> None:
        """Forget the run before."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def restore(self, simulation: Simulation) -> int:
        """Make the simulation what it was after the last round that is here; which one that is, 0 if there is none."""
        number = max((int(p.stem) for p in self.folder.glob("*.safetensors") if p.stem.isdecimal()), default=0)
        if not number:
            return 0
        tensors, facts = _read(self._path(number))
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
                f"{self._path(number)}: of another fleet, {error} is missing; start the run anew"
            ) from error
        return number

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.safetensors"

    def _path_of(self, device: str, number: int) -> Path:
        return self.folder / "kept" / f"{device}.{number}"

    def _tidy(self, number: int) -> None:
        wanted = {self._path(number), *(self._path_of(device, n) for device, n in self._kept.items())}
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
    return {name: w.clone() for name, w in tensors.items()}  # safetensors takes no memory twice


def _as_tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def _read(path: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    try:
        data = read_regular(path, MAX_CHECKPOINT)
        length = int.from_bytes(data[:8], "little")
        described = json.loads(data[8 : 8 + length]).get("__metadata__", {})
        return load(data), json.loads(described.get("facts", "{}"))
    except (OSError, SafetensorError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: not a readable checkpoint ({error}); start the run anew with --force") from error
