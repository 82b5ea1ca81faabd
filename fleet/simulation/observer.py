"""Who is told of a run while it runs: a display, or nobody."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult, Run

__all__ = ["Observer"]


class Observer:
    """Does nothing; a display overrides what it shows."""

    def watch(self, run: Run, *, per_round: int, at_once: int) -> AbstractContextManager[object]:
        """Entered before the first round and left after the last, also by an exception.

        `run` has the configuration, the fleet and the rounds that were done before; `per_round` devices are invited to
        each round, of which `at_once` train at the same time.
        """
        return nullcontext()

    def device_done(self, device: str) -> None:
        """A device has answered."""

    def round_done(self, result: RoundResult) -> None:
        """A round was fused and scored; its files are written next."""

    def warn(self, text: str) -> None:
        """Something in a round that the user should look at, in one line."""
