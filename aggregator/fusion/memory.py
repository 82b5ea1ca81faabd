"""A recipe's memory on disk: one file per fused round, written atomically.

    state/memory/7.safetensors   tensors by name; facts as JSON in the metadata

The same memory gives the same bytes. A round reads the file of the last closed round before it and writes its own, so a
worker that is killed and restarted reaches the same result; older files are deleted. No file means empty memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from aggregator.fusion.types import Memory
from core.errors import RoundError
from core.files import write_atomic

__all__ = ["Memories"]


class Memories:
    """The files of a folder, which is created when needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, round_number: int) -> Path:
        """The path of the memory of round `round_number`."""
        return self.folder / f"{round_number}.safetensors"

    def read(self, round_number: int) -> Memory:
        """The memory after round `round_number`."""
        path = self.path(round_number)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return Memory()
        try:
            length = int.from_bytes(data[:8], "little")
            facts = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["facts"])
            return Memory(tensors=load(data), facts=facts)
        except (SafetensorError, ValueError, KeyError) as error:
            raise RoundError(f"{path}: not a readable memory ({error}); restore it, or remove it to forget") from error

    def write(self, round_number: int, memory: Memory) -> None:
        """Store the memory after round `round_number` durably; an empty memory leaves no file."""
        if not memory.tensors and not memory.facts:
            self.path(round_number).unlink(missing_ok=True)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path(round_number), _encode(memory.tensors, json.dumps(memory.facts, sort_keys=True)))

    def forget(self, before: int) -> None:
        """Remove the files of rounds before `before`, and leftovers of interrupted writes."""
        if not self.folder.is_dir():
            return
        for file in self.folder.iterdir():
            round_number = file.name.partition(".")[0]
            if not round_number.isdecimal() or int(round_number) < before:
                file.unlink(missing_ok=True)


def _encode(tensors: Mapping[str, Tensor], facts: str) -> bytes:
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return bytes(save(whole, metadata={"facts": facts}))
