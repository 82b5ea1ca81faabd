"""Groups devices that one worker trains as one stacked computation (`stacked_perceptrons.py`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from edge_agent.objectives.select import counts_logits
from edge_agent.training.local_round import packed_update
from fleet.fast.sample_store import Shelf
from fleet.fast.stacked_perceptrons import Pupils, Stack, size_that_pays, train_stacked
from fleet.simulation.device import Answer, Kept, Result, SimulatedDevice
from fleet.simulation.round_message import News
from models.split import Prototype
from quant.pack import load_packed

__all__ = ["answers_together", "in_batches"]


def in_batches(
    devices: Sequence[SimulatedDevice], model: Prototype, news: News, *, at_most: int, workers: int
) -> list[Sequence[SimulatedDevice]]:
    """Split `devices`, all of the prototype `model`, into batches, balanced over the workers.

    `at_most` devices in a batch; 0: the fastest number. Always one if fast paths are off, in mixed precision, or if
    devices start from local models, use a side artifact or another loss, have a network that is not a perceptron, or
    hooks change training.
    """
    if not devices:  # possible in virtual time, where no device may be available
        return []
    size = size_that_pays(model)
    if size > 1 and at_most:
        size = at_most
    alone = news.update != "state" or news.side_artifact is not None or counts_logits(news.extra)
    training = devices[0].training_of(news)
    own = devices[0].config.objective or devices[0].config.train
    if alone or own or devices[0].hooks.change_training or training.fast == "off" or training.amp != "off":
        size = 1
    size = max(1, min(size, -(-len(devices) // workers)))
    count = -(-len(devices) // size)
    edges = [len(devices) * n // count for n in range(count + 1)]
    return [devices[a:b] for a, b in pairwise(edges)]


def answers_together(
    devices: Sequence[SimulatedDevice], kept: Sequence[Kept], model: Prototype, news: News
) -> Iterator[Answer]:
    """The answers of a batch's devices, in order; the time is split equally among them."""
    begun = time.perf_counter()
    load_packed(model, news.published[devices[0].prototype].tensors)
    stack = train_stacked(model, _pupils(devices, news), devices[0].training_of(news))
    share = (time.perf_counter() - begun) / len(devices)
    for k, device in enumerate(devices):
        answer = device.answer(model, news, kept[k], partial(_result, device, stack, k))
        yield replace(answer, train_s=answer.train_s + share)


def _pupils(devices: Sequence[SimulatedDevice], news: News) -> Pupils:
    return Pupils(
        shelf=Shelf.of(devices[0].dataset),
        rows=torch.from_numpy(np.concatenate([device.rows for device in devices])),
        y=torch.cat([device.y for device in devices]),
        sizes=[len(device.rows) for device in devices],
        generators=[device.rng(news) for device in devices],
    )


def _result(device: SimulatedDevice, stack: Stack, k: int, model: Prototype, news: News, _: Kept) -> Result:
    trained = stack.trained(k)
    floats, tampers = device.floats(model), device.attack is not None and device.attack.tampers
    if not tampers and floats == "fp32" and not model.spec.precision.quantized:  # unpacked fp32, without rounding
        return {name: value.numpy() for name, value in stack.state(k).items()}, trained.loss, None
    stack.put_into(model, k)
    return device.to_send(model, news, packed_update(model, floats=floats)), trained.loss, None
