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

    def path(self, number: int) -> Path:
        """The path of the memory of round `number`."""
        return self.folder / f"{number}.safetensors"

    def read(self, number: int) -> Memory:
        """The memory after round `number`."""
        path = self.path(number)
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

    def write(self, number: int, memory: Memory) -> None:
        """Store the memory after round `number` durably; an empty memory leaves no file."""
        if not memory.tensors and not memory.facts:
            self.path(number).unlink(missing_ok=True)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path(number), _encode(memory.tensors, json.dumps(memory.facts, sort_keys=True)))

    def forget(self, before: int) -> None:
        """Remove the files of rounds before `before`, and leftovers of interrupted writes."""
        if not self.folder.is_dir():
            return
        for file in self.folder.iterdir():
            number = file.name.partition(".")[0]
            if not number.isdecimal() or int(number) < before:
                file.unlink(missing_ok=True)


def _encode(tensors: Mapping[str, Tensor], facts: str) -> bytes:
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return bytes(save(whole, metadata={"facts": facts}))
