"""Detects failed rounds of a simulated fleet: lost devices, exploding losses, models at chance level.

Each gives a warning. The first two are stored with their round (`RoundResult.warnings`); the last is about the end of a
run, which may be resumed. A round that loses more than half of its devices aborts the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from core.errors import LostError
from core.local_defaults import auto_lr
from core.lost_devices import FATAL, NOTABLE, lost_text, remedy
from fleet.results.lost import attackers_share, exploded, guessing, guessing_text

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult, Run

__all__ = ["LostDevices", "LostRunError"]


class LostRunError(LostError):
    """Too many devices were lost; `run` holds the rounds so far."""

    def __init__(self, text: str, run: Run) -> None:
        super().__init__(text)
        self.run = run


class LostDevices:
    """Checks every round of a run. `training`: the table of `run.json`; `warn` is called with one line."""

    def __init__(self, training: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        self._training = training
        self._warn_of = warn
        self._warned: frozenset[str] = frozenset()
        self._advised = False
        self._exploded: set[str] = set()  # prototypes

    def check(self, result: RoundResult, run: Run) -> None:
        """Warn if more than a tenth of the devices was lost; raise `LostRunError` if more than half.

        Only the first warning states the remedy, and devices that were already lost in the previous round are not named
        again. Exploding losses are reported once per prototype.
        """
        self._check_losses(result, run)
        if result.round == run.config.get("rounds"):
            self._check_accuracies(result, run)
        lost, asked = result.lost, result.asked
        if len(lost) <= NOTABLE * asked:
            return
        text = f"round {result.round}: {lost_text(lost, asked)}"
        if len(lost) > FATAL * asked:
            raise LostRunError(f"{text}; {remedy(self._training)}", run)
        if frozenset(lost) == self._warned:
            return
        self._warned = frozenset(lost)
        self._warn(result, text, remedy(self._training))

    def _check_losses(self, result: RoundResult, run: Run) -> None:
        classes = len(run.fleet[0]["labels"])
        diverged = {name: loss for name, loss in exploded(result, classes).items() if name not in self._exploded}
        if diverged:
            self._exploded |= diverged.keys()
            losses = ", ".join(f"{name} {loss:.3g}" for name, loss in diverged.items())
            advice = _against_attackers(run) or remedy(self._training)
            self._warn(result, f"round {result.round}: local training does not converge, its loss is {losses}", advice)

    def _check_accuracies(self, result: RoundResult, run: Run) -> None:
        low = guessing(result, [device["labels"] for device in run.fleet])
        if low:
            self._warn_of(f"{guessing_text(low)}; {_against_attackers(run) or self._more_training()}")

    def _more_training(self) -> str:
        usual, rate = (
            auto_lr(int(self._training["batch_size"]), float(self._training["momentum"])),
            self._training["lr"],
        )
        if not usual / 10 <= rate <= 10 * usual:
            return f"--lr is {rate:g}, try {usual:.3g}"
        return "try more --rounds, or more --local-epochs"

    def _warn(self, result: RoundResult, text: str, advice: str) -> None:
        more = "" if self._advised else f"; {advice}"
        self._advised = True
        result.warnings.append(f"{text}{more}")
        self._warn_of(f"{text}{more}")


def _against_attackers(run: Run) -> str:
    """Advice if adversarial devices have weight in the averages, else an empty string."""
    share = attackers_share(run)
    if share < NOTABLE / 10:
        return ""
    text = f"adversarial devices have {100 * share:.1f} % of the averages"
    return text if run.config["recipe"] == "edgestill" else f"{text}, which --recipe edgestill would exclude"
