"""What a simulation in virtual time is told. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from core.limits import DEVICES, SECONDS, Range
from fleet.virtual.availability import Availability, read_trace
from fleet.virtual.hardware import Hardware, find_board, known_hardware

__all__ = ["VirtualTime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualTime:
    """Boards, when they are there, and how rounds end."""

    boards: tuple[str, ...]  # of every device, by its number
    deadline_s: float = 3600.0
    quorum: float = 0.5  # of the invited; enough at the deadline
    availability: float = 1.0  # share of the rounds that a device is there for
    dropout: float = 0.0  # share of the rounds that it begins and never ends
    trace: str | None = None  # file that says when devices are there
    hardware: str | None = None  # file that goes before what ships with edgestill
    buffer: int = 0  # updates that make a version, asynchronously; 0: rounds
    concurrency: int = 0  # with a buffer: devices that train at any time; 0: as many as a round would invite

    def __post_init__(self) -> None:
        Range(1e-6, SECONDS.most).check(self.deadline_s, "--deadline")
        if not 0 < self.quorum <= 1:
            raise ConfigError(f"quorum {self.quorum}; give a number above 0 and at most 1")
        for value, what in ((self.buffer, "--buffer"), (self.concurrency, "--concurrency")):
            Range(0, DEVICES.most).check(value, what)
        if self.concurrency and not self.buffer:
            raise ConfigError("--concurrency goes with --buffer")
        known = self._known() if self.boards else {}
        for board in self.boards:
            find_board(board, known)
        if self.trace:
            read_trace(Path(self.trace))
        Availability(share=self.availability, dropout=self.dropout)

    def hardware_of_all(self) -> list[Hardware]:
        """Of every device, by its number."""
        known = self._known()
        return [known[find_board(board, known)] for board in self.boards]

    def _known(self) -> dict[str, Hardware]:
        return known_hardware(Path(self.hardware) if self.hardware else None)

    def when(self, devices: list[str], seed: int) -> Availability:
        """When the devices are there; a trace may only speak of those."""
        windows = read_trace(Path(self.trace)) if self.trace else {}
        unknown = sorted(windows.keys() - set(devices))
        if unknown:
            raise ConfigError(
                f"{self.trace}: no device {unknown[0]!r} in this fleet; it has {devices[0]} to {devices[-1]}"
            )
        return Availability(windows=windows, share=self.availability, dropout=self.dropout, seed=seed)
