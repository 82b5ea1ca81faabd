"""Devices whose training fails, while a simulated fleet runs: a warning, or the end of a run of no use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from core.errors import LostError
from core.lost_devices import FATAL, NOTABLE, lost_text, remedy
from fleet.results.lost import exploded

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult, Run

__all__ = ["LostDevices", "LostRunError"]


class LostRunError(LostError):
    """Too many devices were lost; the run has what the rounds came to."""

    def __init__(self, text: str, run: Run) -> None:
        super().__init__(text)
        self.run = run


class LostDevices:
    """Checks every round of a run that devices train by `training`, a table of `run.json`; `warn` takes a line."""

    def __init__(self, training: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        self._training = training
        self._warn_of = warn
        self._warned: frozenset[str] = frozenset()
        self._advised = False
        self._exploded: set[str] = set()  # prototypes

    def check(self, result: RoundResult, run: Run) -> None:
        """Warn where more than a tenth was lost; `LostRunError` where more than half.

        The remedy is told with the first warning, and those who were lost the last time too are not named again. Losses
        that have grown beyond all bounds are told once for each prototype.
        """
        self._check_losses(result, classes=len(run.fleet[0]["labels"]))
        lost, asked = result.lost, result.asked
        if len(lost) <= NOTABLE * asked:
            return
        text = f"round {result.round}: {lost_text(lost, asked)}"
        if len(lost) > FATAL * asked:
            raise LostRunError(f"{text}; {remedy(self._training)}", run)
        if frozenset(lost) == self._warned:
            return
        self._warned = frozenset(lost)
        self._warn(text)

    def _check_losses(self, result: RoundResult, classes: int) -> None:
        found = {name: loss for name, loss in exploded(result, classes).items() if name not in self._exploded}
        if found:
            self._exploded |= found.keys()
            losses = ", ".join(f"{name} {loss:.3g}" for name, loss in found.items())
            self._warn(f"round {result.round}: local training does not converge, its loss is {losses}")

    def _warn(self, text: str) -> None:
        more = "" if self._advised else f"; {remedy(self._training)}"
        self._advised = True
        self._warn_of(f"{text}{more}")
