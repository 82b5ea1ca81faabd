"""The settings of virtual time. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from core.errors import ConfigError
from core.limits import DEVICES, SECONDS, Range
from fleet.simulation.settings.layers import about
from fleet.simulation.settings.panels import check_ranges, in_time

if TYPE_CHECKING:
    from firmware_configs.boards.hardware import Hardware
    from fleet.virtual.availability import Availability

__all__ = ["VirtualTime"]

SOME = Range(0, DEVICES.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualTime:
    """Boards, their availability, and the rules that close rounds."""

    boards: tuple[str, ...]  # of every device, by index
    deadline_s: Annotated[
        float, in_time("Virtual seconds until a round is closed.", Range(1e-6, SECONDS.most), key="deadline")
    ] = 3600.0
    quorum: Annotated[float, in_time("Fraction of invited devices that must have answered at the deadline.")] = 0.5
    availability: Annotated[float, in_time("Probability that a device is available for a round.")] = 1.0
    dropout: Annotated[float, in_time("Probability that a device starts a round and never finishes it.")] = 0.0
    trace: Annotated[str, in_time("CSV file of the times at which devices are available.", kind=Path)] | None = None
    hardware: (  # overrides the figures of the profiles
        Annotated[str, in_time("TOML file with speed and power of boards, or a folder of profiles.", kind=Path)] | None
    ) = None
    buffer: Annotated[int, in_time("Fuse whenever this many updates have arrived (FedBuff); 0 is off.", SOME)] = 0
    staleness: Annotated[
        float, in_time("With --buffer: a of the weight (1 + tau)^-a of an update tau versions old.", Range(0, 10))
    ] = 0.5
    max_staleness: Annotated[int, in_time("With --buffer: versions; older updates are not used.", SOME)] | None = None
    concurrency: Annotated[
        int, in_time("With --buffer: devices in training at any time; 0: as many as a round invites.", SOME)
    ] = 0

    def __post_init__(self) -> None:
        from fleet.virtual.availability import Availability, read_trace
        from fleet.virtual.hardware import find_board

        check_ranges(self)
        if not 0 < self.quorum <= 1:
            with about("quorum"):
                raise ConfigError(f"--quorum {self.quorum:g}; give a number above 0 and at most 1")
        if self.concurrency and not self.buffer:
            with about("concurrency"):
                raise ConfigError("--concurrency requires --buffer")
        if not self.buffer and (self.staleness, self.max_staleness) != (0.5, None):
            with about("staleness", "max_staleness"):
                raise ConfigError("--staleness and --max-staleness require --buffer")
        known = self._known() if self.boards else {}
        with about("devices"):
            for board in self.boards:
                find_board(board, known)
        if self.trace:
            with about("trace"):
                read_trace(Path(self.trace))
        with about("availability"):
            Availability(share=self.availability)
        with about("dropout"):
            Availability(dropout=self.dropout)

    def hardware_of_all(self) -> list[Hardware]:
        """The hardware of every device, by index."""
        known = self._known()
        return [known[name] for name in self.names_of_all()]

    def names_of_all(self) -> list[str]:
        """The board of every device, by index, with its whole name."""
        from fleet.virtual.hardware import find_board

        known = self._known()
        return [find_board(board, known) for board in self.boards]

    def _known(self) -> dict[str, Hardware]:
        from fleet.virtual.hardware import known_hardware

        with about("hardware"):
            return known_hardware(Path(self.hardware) if self.hardware else None)

    def when(self, devices: list[str], seed: int) -> Availability:
        """The availability of the devices; a trace may name only these."""
        from fleet.virtual.availability import Availability, read_trace

        windows = read_trace(Path(self.trace)) if self.trace else {}
        unknown = sorted(windows.keys() - set(devices))
        if unknown:
            raise ConfigError(
                f"{self.trace}: no device {unknown[0]!r} in this fleet; it has {devices[0]} to {devices[-1]}"
            )
        return Availability(windows=windows, share=self.availability, dropout=self.dropout, seed=seed)
