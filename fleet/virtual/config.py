"""What a simulation in virtual time is told. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from core.errors import ConfigError
from core.limits import DEVICES, SECONDS, Range
from fleet.simulation.settings.panels import check_ranges, in_time

if TYPE_CHECKING:
    from fleet.virtual.availability import Availability
    from fleet.virtual.hardware import Hardware

__all__ = ["VirtualTime"]

SOME = Range(0, DEVICES.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualTime:
    """Boards, when they are there, and how rounds end."""

    boards: tuple[str, ...]  # of every device, by its number
    deadline_s: Annotated[
        float, in_time("Virtual seconds until a round is closed.", Range(1e-6, SECONDS.most), key="deadline")
    ] = 3600.0
    quorum: Annotated[float, in_time("Share of the invited that is enough at the deadline.")] = 0.5
    availability: Annotated[float, in_time("Share of the rounds that a device is there for.")] = 1.0
    dropout: Annotated[float, in_time("Share of the rounds that it begins and never ends.")] = 0.0
    trace: Annotated[str, in_time("CSV file that says when devices are there.", kind=Path)] | None = None
    hardware: (  # goes before what ships with edgestill
        Annotated[str, in_time("TOML file with speeds and watts of boards of yours.", kind=Path)] | None
    ) = None
    buffer: Annotated[int, in_time("No rounds: fuse when so many updates are in (FedBuff); 0 is off.", SOME)] = 0
    concurrency: Annotated[
        int, in_time("With --buffer: devices that train at any time; 0: as a round invites.", SOME)
    ] = 0

    def __post_init__(self) -> None:
        from fleet.virtual.availability import Availability, read_trace
        from fleet.virtual.hardware import find_board

        check_ranges(self)
        if not 0 < self.quorum <= 1:
            raise ConfigError(f"quorum {self.quorum}; give a number above 0 and at most 1")
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
        from fleet.virtual.hardware import find_board

        known = self._known()
        return [known[find_board(board, known)] for board in self.boards]

    def _known(self) -> dict[str, Hardware]:
        from fleet.virtual.hardware import known_hardware

        return known_hardware(Path(self.hardware) if self.hardware else None)

    def when(self, devices: list[str], seed: int) -> Availability:
        """When the devices are there; a trace may only speak of those."""
        from fleet.virtual.availability import Availability, read_trace

        windows = read_trace(Path(self.trace)) if self.trace else {}
        unknown = sorted(windows.keys() - set(devices))
        if unknown:
            raise ConfigError(
                f"{self.trace}: no device {unknown[0]!r} in this fleet; it has {devices[0]} to {devices[-1]}"
            )
        return Availability(windows=windows, share=self.availability, dropout=self.dropout, seed=seed)
