"""Memory on disk: what is written comes back, equal memories are equal bytes, old files go."""

from pathlib import Path

import pytest
import torch

from aggregator.fusion.memory import Memories
from aggregator.fusion.types import Memory
from core.errors import RoundError

KEPT = Memory(
    tensors={"momentum/cnn:w1/b": torch.tensor([1.5]), "a": torch.tensor([[1, 2]])},
    facts={"afa/mlp:fp32/trust": {"pi-0": [3.0, 4.0]}, "a": None},
)


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    memories = Memories(tmp_path / "memory")
    memories.write(3, KEPT)
    again = memories.read(3)
    assert again.facts == KEPT.facts
    assert again.tensors.keys() == KEPT.tensors.keys()
    for name, tensor in KEPT.tensors.items():
        assert torch.equal(again.tensors[name], tensor)
        assert again.tensors[name].dtype == tensor.dtype


def test_the_same_memory_is_the_same_bytes_in_whatever_order_it_was_made(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.write(1, KEPT)
    turned = Memory(
        tensors=dict(reversed(KEPT.tensors.items())),
        facts=dict(reversed(KEPT.facts.items())),
    )
    memories.write(2, turned)
    assert memories.path(1).read_bytes() == memories.path(2).read_bytes()


def test_nothing_to_remember_leaves_no_file_and_no_file_is_no_memory(tmp_path: Path) -> None:
    memories = Memories(tmp_path / "memory")
    memories.write(1, Memory())
    memories.forget(1)
    assert not memories.folder.exists()
    assert memories.read(1) == Memory()
    memories.write(1, KEPT)
    memories.write(1, Memory())
    assert memories.read(1) == Memory()


def test_older_rounds_and_leftovers_of_a_killed_write_are_forgotten(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    for number in (2, 9, 10):
        memories.write(number, KEPT)
    (tmp_path / ".10.safetensors.x7").write_bytes(b"half")
    memories.forget(9)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["10.safetensors", "9.safetensors"]


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.write(1, KEPT)
    memories.path(1).write_bytes(memories.path(1).read_bytes()[:-3])
    with pytest.raises(RoundError, match=r"1\.safetensors: not a readable memory"):
        memories.read(1)
