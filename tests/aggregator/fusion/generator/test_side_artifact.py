"""What a round leaves for the devices to learn from."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from aggregator.fusion.generator.side_artifact import (
    SideArtifact,
    generator_of,
    label_counts,
    make_generator,
    make_label_logits,
)
from aggregator.fusion.memory import Memories
from aggregator.fusion.types import Memory, Received, Server
from aggregator.recipes.generator import PAPER, REFERENCE, Generation

SMALL = Generation(noise_width=4, hidden=8, steps=5)
SERVER = Server(seed=3)


def update(device: str, number: int, **other: object) -> Received:
    rng = torch.Generator().manual_seed(number)
    state = {
        "predictor.weight": torch.randn(3, 2, generator=rng),
        "predictor.bias": torch.randn(3, generator=rng),
    }
    facts: dict = {"num_examples": 6, "label_counts": (1, 2, 3)}
    return Received(device=device, state=lambda: state, **{**facts, **other})


UPDATES = [update("a", 1), update("b", 2, label_counts=(0, 4, 2))]


def test_counts_are_the_devices_own_or_spread_over_all_labels() -> None:
    counts = label_counts([*UPDATES, update("c", 3, label_counts=(), num_examples=9)], 3)
    assert counts.tolist() == [[1.0, 2.0, 3.0], [0.0, 4.0, 2.0], [3.0, 3.0, 3.0]]


def test_a_round_of_devices_whose_counts_are_all_zero_makes_a_generator_too() -> None:
    """Noise may leave nothing of small counts, and a device may send zeros: neither stops the round."""
    found = made(SMALL, [update("a", 1, num_examples=1, label_counts=(0, 0, 0))], SERVER, 1, Memory())
    assert found.tensors["labels"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3])


def test_the_generator_is_published_with_the_labels_to_draw() -> None:
    found = made(SMALL, UPDATES, SERVER, 1, Memory())
    assert (found.prototype, found.input_shape, found.classes, found.latent) == ("generator:paper", (4,), 3, 2)
    assert found.tensors["labels"].tolist() == pytest.approx([1 / 12, 6 / 12, 5 / 12])
    assert found.tensors["fc1.weight"].shape == (8, 7)
    assert "norm.running_var" in found.tensors
    assert not [name for name in found.tensors if "num_batches" in name]
    assert found.metrics["teacher_loss"] > 0


def test_the_next_round_goes_on_from_memory_and_a_restart_changes_nothing(tmp_path: object) -> None:
    memory, memories = Memory(), Memories(tmp_path)  # type: ignore[arg-type]
    make_generator(SMALL, UPDATES, SERVER, 1, memory)
    memories.write(1, memory)
    straight = made(SMALL, UPDATES, SERVER, 2, memory)
    restarted = made(SMALL, UPDATES, SERVER, 2, memories.read(1))
    anew = made(SMALL, UPDATES, SERVER, 2, Memory())
    assert _same(straight.tensors, restarted.tensors)
    assert not _same(straight.tensors, anew.tensors)
    assert memory.facts["generator.steps"] == 10


def test_a_generator_of_another_size_begins_anew() -> None:
    memory = Memory()
    make_generator(SMALL, UPDATES, SERVER, 1, memory)
    assert generator_of(SMALL, 3, 2, SERVER, memory)[2] is not None
    larger = Generation(noise_width=4, hidden=9, steps=5)
    _, adam, labels = generator_of(larger, 3, 2, SERVER, memory)
    assert labels is None
    assert adam.steps == 0


@pytest.mark.parametrize(("how", "name"), [(PAPER, "generator:paper"), (REFERENCE, "generator:reference")])
def test_the_name_tells_the_noise(how: Generation, name: str) -> None:
    assert made(how, UPDATES[:1], SERVER, 1, Memory()).prototype == name


def test_a_device_that_is_not_trusted_has_no_say() -> None:
    trusted = made(SMALL, UPDATES, SERVER, 1, Memory(), [1.0, 0.0])
    others = [UPDATES[0], update("b", 99, label_counts=(100, 0, 0))]
    assert _same(trusted.tensors, made(SMALL, others, SERVER, 1, Memory(), [1.0, 0.0]).tensors)


def test_a_generator_that_broken_predictors_have_broken_is_not_used() -> None:
    memory = Memory()
    make_generator(SMALL, UPDATES, SERVER, 1, memory)
    before = dict(memory.tensors)
    huge = {"predictor.weight": torch.full((3, 2), 3e38), "predictor.bias": torch.zeros(3)}
    broken = Received(device="c", num_examples=1, state=lambda: huge)
    assert make_generator(SMALL, [*UPDATES, broken, broken], SERVER, 2, memory) is None
    assert _same(memory.tensors, before)


def test_without_any_trusted_device_the_last_generator_stays() -> None:
    memory = Memory()
    make_generator(SMALL, UPDATES, SERVER, 1, memory)
    before = dict(memory.tensors)
    assert make_generator(SMALL, UPDATES, SERVER, 2, memory, [0.0] * len(UPDATES)) is None
    assert _same(memory.tensors, before)


def logits(device: str, values: list[list[float]], counts: tuple[int, ...]) -> Received:
    return Received(
        device=device,
        num_examples=2,
        state=dict,
        label_counts=counts,
        model=False,
        extra=lambda: {"label-logits": torch.tensor(values)},
    )


def test_label_logits_are_averaged_over_who_has_the_label_or_over_all() -> None:
    sent = [logits("a", [[2.0, 0.0], [0.0, 0.0]], (2, 0)), logits("b", [[4.0, 2.0], [1.0, 3.0]], (1, 1))]
    silent = Received(device="c", num_examples=1, state=dict)
    seen = make_label_logits([*sent, silent], 2, 8, reference=False)
    everybody = make_label_logits(sent, 2, 8, reference=True)
    assert seen is not None
    assert everybody is not None
    assert (seen.prototype, seen.latent) == ("label-logits:mean", 8)
    assert seen.tensors["label-logits"].tolist() == [[3.0, 1.0], [1.0, 3.0]]
    assert everybody.tensors["label-logits"].tolist() == [[3.0, 1.0], [0.5, 1.5]]
    assert make_label_logits([silent], 2, 8, reference=False) is None


def made(*arguments: object) -> SideArtifact:
    """Of predictors that break nothing."""
    found = make_generator(*arguments)  # type: ignore[arg-type]
    assert found is not None
    return found


def _same(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
