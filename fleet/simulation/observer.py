"""Progress callbacks of a run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult, Run
    from fleet.simulation.simulation import Simulation

__all__ = ["Observer"]


class Observer:
    """Does nothing; a display overrides the callbacks that it shows."""

    def built(self, simulation: Simulation) -> None:
        """The fleet is built; its groups have the models of the last round from here on."""

    def watch(self, run: Run, *, per_round: int, at_once: int) -> AbstractContextManager[object]:
        """A context around all rounds; it is left after the last one or by an exception.

        `run` holds the configuration, the fleet and, when resumed, the earlier rounds; `per_round` devices are invited
        to each round, of which `at_once` train in parallel.
        """
        return nullcontext()

    def device_done(self, device: str) -> None:
        """A device has finished its training."""

    def round_done(self, result: RoundResult) -> None:
        """A round was fused and scored; its files are written next."""

    def goes_on(self) -> bool:
        """Whether the run goes on after this round; asked when its files are written."""
        return True

    def warn(self, text: str) -> None:
        """A one-line warning about a round."""
