"""The samples of a device's training, mini-batch by mini-batch, on its compute device."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Samples"]

#: Bytes of samples that may lie on a GPU, beside the model; larger sets are moved mini-batch by mini-batch.
RESIDENT = 2**28


class Samples:
    """Samples `x` (N, ...) and labels `y` (N,), taken by their indices, which are drawn on the CPU.

    Copies to the device are blocking ones: memory that is not pinned cannot be copied in the background, and pinning
    it would take it from a board whose GPU shares its memory.
    """

    def __init__(self, x: Tensor, y: Tensor, device: torch.device) -> None:
        self.device = device
        there = x.device.type == device.type or x.nbytes <= RESIDENT
        self._x, self._y = (x.to(device), y.to(device)) if there else (x, y)

    def take(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The samples and labels at these indices, on the device."""
        if self.device.type == "cpu":
            return self._x.index_select(0, chosen), self._y.index_select(0, chosen)
        at = chosen.to(self._x.device)
        return self._x.index_select(0, at).to(self.device), self._y.index_select(0, at).to(self.device)

    def zero(self) -> Tensor:
        """Where losses are summed: on the device, so that no step waits for it. Apple's GPUs have no float64."""
        return torch.zeros((), dtype=torch.float32 if self.device.type == "mps" else torch.float64, device=self.device)
