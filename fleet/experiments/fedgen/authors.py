"""Differences of FedGen's code (Zhu et al. 2021) from the product, as hooks of the simulated fleet.

    partition      one for all seeds: that of seed 42
    batches        a user's loader continues from round to round; batches are always full
    label counts   of the mini-batches drawn in the round (the paper: of all samples)
    lr             0.01 · 0.99^t, t + 1 the last earlier round to which the user was invited; 0.01 at first
    statistics     BatchNorm's running statistics stay on the user: 0 and 1 until it is invited, then of its own batches
    labels         users draw the labels of generated latents uniformly, though the generator learns the round's labels

The authors' loader drops the remainder of an epoch; here it starts the next batch, so that a user with fewer samples
than a batch takes part. Everything is a function of seed, user and round, so that all workers agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from aggregator.fusion.generator.side_artifact import SideArtifact
from aggregator.fusion.numerics.vectors import is_statistic
from aggregator.rounds.sampling import sample
from fleet.data import Dataset
from fleet.experiments.fedgen.plans import Plan
from fleet.partition.fedgen import fedgen
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import STAYS, SimulatedDevice
from fleet.simulation.hooks import Hooks
from fleet.simulation.seeds import numpy_rng
from fleet.simulation.simulation import Simulation
from models.latents import LABELS
from quant.pack import pack_state
from wire.tensors import encode

__all__ = [
    "authors_lr",
    "authors_partition",
    "batches_of",
    "hooks_of",
    "open_fleet",
    "round_counts",
    "rows_of",
    "turns_before",
]

LR_DECAY = 0.99


def open_fleet(plan: Plan, dataset: Dataset, hooks: Hooks) -> Simulation:
    """The fleet of `plan` before its first round; if statistics stay, all users start with the first model's."""
    fleet = Simulation(plan.config, dataset, hooks=hooks)
    stays = hooks.stays
    if stays is not None:
        first = pack_state(fleet.groups[0].state, floats="fp32")
        own = encode({name: tensor for name, tensor in first.items() if stays(name)})
        for device in fleet.devices:
            device.kept[STAYS] = own
    return fleet


def hooks_of(plan: Plan) -> Hooks:
    """The hooks of a table's fleet."""
    common = Hooks(
        partition=lambda dataset: authors_partition(plan.config, dataset),
        batches=batches_of,
        label_counts=round_counts if plan.round_counts else None,
    )
    if not plan.authors:
        return common
    return replace(common, lr=authors_lr, stays=is_statistic, side_artifact=_all_labels)


def authors_partition(config: SimulationConfig, dataset: Dataset) -> list[NDArray[np.int64]]:
    """Rows of the training set by user; the same for all seeds."""
    return fedgen(dataset.y_train, config.devices, alpha=config.alpha)


@cache
def _asked(devices: int, prototype: str, seed: int, fraction: float, round_number: int) -> frozenset[str]:
    """The devices that round `round_number` invites."""
    width = len(str(devices - 1))
    there = {f"sim-{i:0{width}d}": prototype for i in range(devices)}
    return frozenset(sample(there, seed, round_number, fraction=fraction))


def turns_before(device: SimulatedDevice, round_number: int) -> list[int]:
    """The rounds before `round_number` in which the device was invited; of a fleet with one prototype."""
    config = device.config
    fleet = (config.devices, device.prototype, config.seed, config.fraction)
    return [n for n in range(1, round_number) if device.id in _asked(*fleet, n)]


def authors_lr(device: SimulatedDevice, round_number: int) -> float:
    """The learning rate of a user in a round, by the last round to which it was invited."""
    turns, lr = turns_before(device, round_number), device.config.training.lr
    return lr * LR_DECAY ** (turns[-1] - 1) if turns else lr


def rows_of(device: SimulatedDevice, round_number: int) -> NDArray[np.int64]:
    """(steps, batch): the samples of round `round_number`, as indices of the device's samples.

    The device's samples are reshuffled again and again; a round continues where the device's last one ended.
    """
    training, size = device.config.training, len(device.rows)
    assert training.steps is not None, "FedGen counts steps"
    wanted = training.steps * training.batch_size
    start = wanted * len(turns_before(device, round_number))
    epochs = range(start // size, (start + wanted - 1) // size + 1)
    orders = [numpy_rng(device.config.seed, "stream", device.id, n).permutation(size) for n in epochs]
    first = start - epochs[0] * size
    taken: NDArray[np.int64] = np.concatenate(orders)[first : first + wanted]
    return taken.reshape(training.steps, training.batch_size)


def batches_of(device: SimulatedDevice, round_number: int) -> Iterator[torch.Tensor]:
    """The mini-batches of a round."""
    return iter(torch.from_numpy(rows_of(device, round_number)))


def round_counts(device: SimulatedDevice, round_number: int) -> Sequence[int]:
    """Label counts of the mini-batches of a round."""
    drawn = device.y[rows_of(device, round_number).ravel()]
    counts: list[int] = torch.bincount(drawn, minlength=device.dataset.classes).tolist()
    return counts


def _all_labels(made: SideArtifact) -> SideArtifact:
    """The side artifact with uniform p(y)."""
    if LABELS not in made.tensors:
        return made
    uniform = torch.full_like(made.tensors[LABELS], 1 / made.classes)
    return replace(made, tensors={**made.tensors, LABELS: uniform})
