"""Hooks of experiments: each changes what it says, in this process and in workers; without them nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from aggregator.fusion.generator.side_artifact import SideArtifact
from aggregator.fusion.numerics.vectors import is_statistic
from core.errors import ConfigError
from edge_agent.training.local_round import local_update
from fleet.fast.grouping import in_batches
from fleet.simulation.device import STAYS, SimulatedDevice
from fleet.simulation.hooks import NO_HOOKS, Hooks
from fleet.simulation.received import Sent
from fleet.simulation.round_message import Artifact, News
from fleet.simulation.simulation import Simulation
from models.latents import LABELS
from quant.pack import unpack
from tests.fleet.simulation.test_simulation import CONFIG, toy
from wire.tensors import decode

CNN = replace(CONFIG, prototypes=("cnn:fp32",), devices=4, fraction=0.5)
MLP = replace(CNN, prototypes=("mlp:fp32",))
State = dict[str, torch.Tensor]


def first_rows(device: SimulatedDevice, number: int) -> Iterator[torch.Tensor]:
    """Three mini-batches of the device's first samples."""
    return iter([torch.arange(4) + number] * 3)


def after(hooks: Hooks, rounds: int = 2, **changes: object) -> State:
    """The fused model."""
    with Simulation(replace(CNN, **changes), toy(), hooks=hooks) as simulation:
        for number in range(1, rounds + 1):
            simulation.run_round(number)
        return dict(simulation.groups[0].state)


def same(a: State, b: State) -> bool:
    return all(torch.equal(w, b[name]) for name, w in a.items())


def test_every_field_is_optional_and_none_by_default() -> None:
    assert all(getattr(NO_HOOKS, field.name) is None for field in fields(Hooks))
    assert not NO_HOOKS.change_training


def test_the_samples_of_devices() -> None:
    parts = [np.arange(n, 180, 4) for n in range(4)]
    with Simulation(CNN, toy(), hooks=Hooks(partition=lambda dataset: parts)) as simulation:
        assert all(np.array_equal(d.rows, p) for d, p in zip(simulation.devices, parts, strict=True))
    with pytest.raises(ConfigError, match="device 1 got no samples"):
        Simulation(CNN, toy(), hooks=Hooks(partition=lambda dataset: [parts[0], parts[0][:0], parts[2], parts[3]]))


def test_learning_rates_by_device_and_round() -> None:
    plain = after(NO_HOOKS, 1)
    assert same(after(Hooks(lr=lambda device, number: CNN.training.lr), 1), plain)
    start = after(Hooks(lr=lambda device, number: 1e-9), 1)
    moved = {name: float((w - start[name]).norm()) for name, w in plain.items() if not is_statistic(name)}
    assert sum(moved.values()) > 0.1


def test_mini_batches_are_those_of_the_hook() -> None:
    """Two epochs of the product are replaced by three batches: fewer steps, and another model."""
    assert not same(after(Hooks(batches=first_rows), 1), after(NO_HOOKS, 1))
    with Simulation(CNN, toy(), hooks=Hooks(batches=first_rows)) as simulation:
        device = simulation.devices[0]
        published = simulation._published(simulation.groups[0])
        news = News(round_number=1, published={"cnn:fp32": Artifact(published)})
        tensors, loss, _ = device._trained(simulation.groups[0].model, news, {}, device=torch.device("cpu"))
        expected, trained = local_update(
            simulation.groups[0].model,
            published,
            device.x,
            device.y,
            device.training_of(news),
            floats="fp32",
            generator=device.rng(news),
            order=first_rows(device, 1),
        )
        assert trained.steps == 3
        assert loss == trained.loss
        assert all(np.array_equal(tensors[name], value) for name, value in expected.items())


def test_label_counts_are_told_and_the_number_of_examples_stays() -> None:
    told: list[tuple[int, tuple[float, ...]]] = []

    def keep(simulation: Simulation, number: int, sent: Sequence[Sent]) -> None:
        told.extend((one.update.num_examples, one.update.label_counts) for one in sent if one.update is not None)

    with Simulation(CNN, toy(), hooks=Hooks(label_counts=lambda d, n: [n, 0, 7], received=keep)) as simulation:
        simulation.run_round(1)
        sizes = [len(device.rows) for device in simulation.invited(simulation.groups[0], 1)]
    assert told == [(size, (1, 0, 7)) for size in sizes]


def test_what_stays_is_gone_on_from_and_sent_all_the_same() -> None:
    with Simulation(CNN, toy(), hooks=Hooks(stays=is_statistic)) as simulation:
        simulation.run_round(1)
        mean = "extractor.body.norm1.running_mean"
        trained = simulation.invited(simulation.groups[0], 1)
        own = [unpack(decode(device.kept[STAYS])) for device in trained]
        assert all(set(filter(is_statistic, one)) == set(one) != set() for one in own)
        assert not torch.equal(own[0][mean], own[1][mean])
        fused = simulation.groups[0].state[mean]
        assert torch.allclose(fused, weighted([one[mean] for one in own], trained), atol=1e-5)
        start = trained[0].start("state", Artifact(simulation._published(simulation.groups[0])), trained[0].kept)
        assert np.array_equal(start[mean], own[0][mean].numpy())
        assert np.array_equal(start["predictor.bias"], simulation.groups[0].state["predictor.bias"].numpy())
        never = next(device for device in simulation.devices if STAYS not in device.kept)
        assert never not in trained


def weighted(tensors: list[torch.Tensor], devices: list[SimulatedDevice]) -> torch.Tensor:
    sizes = torch.tensor([float(len(device.rows)) for device in devices])
    return torch.einsum("k,k...->...", sizes / sizes.sum(), torch.stack(tensors))


def test_what_was_sent_is_seen_before_it_is_fused() -> None:
    seen: list[tuple[int, list[str], bool]] = []

    def look(simulation: Simulation, number: int, sent: Sequence[Sent]) -> None:
        before = {name: w.clone() for name, w in simulation.groups[0].state.items()}
        seen.append((number, [one.device.id for one in sent], same(before, states[-1])))

    with Simulation(CNN, toy(), hooks=Hooks(received=look)) as simulation:
        states = [dict(simulation.groups[0].state)]
        expected = []
        for number in (1, 2):
            expected.append((number, [d.id for d in simulation.invited(simulation.groups[0], number)], True))
            simulation.run_round(number)
            states.append(dict(simulation.groups[0].state))
    assert seen == expected


def test_the_side_artifact_is_published_as_the_hook_gives_it() -> None:
    def second(made: SideArtifact) -> SideArtifact:
        return replace(made, tensors={**made.tensors, LABELS: torch.tensor([0.0, 1.0, 0.0])})

    config = replace(CNN, recipe="fedgen", fusion={"generator_steps": 2, "generator_hidden": 8})
    with Simulation(config, toy(), hooks=Hooks(side_artifact=second)) as simulation:
        simulation.run_round(1)
        assert simulation.side_artifact is not None
        assert simulation.side_artifact.body.tensors[LABELS].tolist() == [0, 1, 0]


@pytest.mark.parametrize("hooks", [Hooks(lr=lambda d, n: 0.1), Hooks(batches=first_rows), Hooks(stays=is_statistic)])
def test_devices_that_train_otherwise_are_not_stacked(hooks: Hooks) -> None:
    def sizes(hooks: Hooks) -> set[int]:
        with Simulation(MLP, toy(), hooks=hooks) as simulation:
            group, news = simulation.groups[0], News(round_number=1, published={})
            return {len(b) for b in in_batches(group.devices, group.model, news, at_most=0, workers=1)}

    assert sizes(NO_HOOKS) == sizes(Hooks(label_counts=lambda d, n: [1, 1, 1])) == {4}
    assert sizes(hooks) == {1}


def test_workers_have_the_hooks_too() -> None:
    hooks = Hooks(batches=first_rows, lr=lambda device, number: 0.01 * number, stays=is_statistic)
    assert same(after(hooks, engine="processes", workers=2), after(hooks))


def test_ray_has_none_and_says_so() -> None:
    with pytest.raises(ConfigError, match="'ray' does not support hooks; use --engine processes or inline"):
        Simulation(replace(CNN, engine="ray"), toy(), hooks=Hooks(stays=is_statistic))
