"""The work that all engines execute: train a device, score a model on a part of the test set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from aggregator.evaluate import BATCH, Counted, count
from fleet.fast.grouping import answers_together
from fleet.simulation.device import Answer, Kept, SimulatedDevice
from fleet.simulation.round_message import Artifact, News
from models.channels import channels_last_
from models.compute_device import CPU
from models.on_device import on_device
from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.pack import load_packed

__all__ = ["Bench", "Tally"]

Tally = list[Counted]  # per batch


@dataclass(slots=True, kw_only=True)
class Bench:
    """All devices, a model per prototype, and the test set; `open` sets the round's message."""

    devices: Sequence[SimulatedDevice]  # by index
    models: Mapping[str, Prototype]
    test: tuple[torch.Tensor, torch.Tensor]
    count: Callable[[Prototype, torch.Tensor, torch.Tensor], Tally] = count  # scores a model on a part of the test set
    news: News | None = field(default=None)
    device: torch.device = CPU  # where this process computes

    def open(self, news: News) -> None:
        """Start a round."""
        self.news = news

    def train(self, tasks: Sequence[tuple[int, Kept]]) -> Iterator[Answer]:
        """Train devices, given as (index, local state); several devices of one prototype train as one computation."""
        assert self.news is not None, "a round is open"
        devices = [self.devices[index] for index, _ in tasks]
        model = self.models[devices[0].prototype]
        if len(devices) == 1:
            yield devices[0].answer(model, self.news, tasks[0][1], device=self.device)
        else:
            yield from answers_together(devices, [kept for _, kept in tasks], model, self.news)

    def score(self, prototype: str, state: Artifact, first: int, last: int, *, quantized: bool) -> Tally:
        """Tallies of the batches `first` to `last` - 1 of the test set for a full-precision state."""
        model = self.models[prototype]
        load_packed(model, state.tensors)
        wide = channels_last_(model)
        x, y = (part[first * BATCH : last * BATCH] for part in self.test)
        if wide and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with on_device(model, self.device), nullcontext() if quantized else weights_as_they_are(model):
            return self.count(model, x.to(self.device), y.to(self.device))

    @property
    def batches(self) -> int:
        """The number of batches of the test set."""
        return -(-len(self.test[1]) // BATCH)
