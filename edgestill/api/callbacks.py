"""Callbacks of a run: a user's code that follows it, and may end it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core import own_code
from core.entry_points import reported
from core.errors import ConfigError
from fleet.simulation.hooks import NO_HOOKS, Hooks
from fleet.simulation.observer import Observer

if TYPE_CHECKING:
    from torch import Tensor

    from edgestill.api.run import Run
    from fleet.results.run_file import RoundResult
    from fleet.results.run_file import Run as Recorded
    from fleet.simulation.received import Sent
    from fleet.simulation.simulation import Simulation

__all__ = ["Callback", "Update", "Watching", "as_callback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One device's update as the aggregator has received and decoded it."""

    round: int
    device: str
    prototype: str
    examples: int
    loss: float  # of local training, as the device reports it
    bytes: int  # of the sealed message
    state: Mapping[str, Tensor]  # float32, quantized weights dequantized; not to be changed


class Callback:
    """Base of callbacks; override what you need. A plain function is an `on_round`."""

    def on_start(self, run: Run) -> None:
        """The fleet is built; no round has begun."""

    def on_update(self, update: Update) -> None:
        """A device's update has been received; called before the round is fused, in the order of the devices."""

    def on_round(self, run: Run, result: RoundResult) -> bool | None:
        """A round is complete; `run` has its models. True ends the run."""

    def on_end(self, run: Run) -> None:
        """The last round is complete, or the run was ended by a callback."""


METHODS = ("on_start", "on_update", "on_round", "on_end")


def as_callback(thing: Any) -> Any:
    """An object with some of the methods of `Callback`: of a class, an instance, a function, or FILE.py:NAME."""
    if isinstance(thing, str):
        return as_callback(own_code.load(thing))
    if isinstance(thing, type):
        return as_callback(thing())
    if any(hasattr(thing, name) for name in METHODS):
        return thing
    if callable(thing):
        made = Callback()
        made.on_round = thing  # type: ignore[method-assign]
        return made
    raise ConfigError(f"callback {thing!r}: give a function (run, result), or an object with on_round or on_update")


class Watching(Observer):
    """Shows a run, calls its callbacks, and builds the run object that they get."""

    def __init__(self, shown: Observer, callbacks: Sequence[Any], make: Callable[[Simulation, Recorded], Run]) -> None:
        self._shown, self._make = shown, make
        self._callbacks = [as_callback(one) for one in callbacks]
        self._simulation: Simulation | None = None
        self._run: Run | None = None
        self._ended = False

    @property
    def run(self) -> Run:
        """The run so far."""
        assert self._run is not None, "the run has begun"
        return self._run

    @property
    def hooks(self) -> Hooks:
        """The hook for `on_update`, if a callback has it."""
        wanted = [c for c in self._callbacks if getattr(type(c), "on_update", None) not in (None, Callback.on_update)]
        if not wanted:
            return NO_HOOKS

        def received(_: Simulation, round_number: int, sent: Sequence[Sent]) -> None:
            for update in (_update(round_number, one) for one in sent if one.update is not None):
                for callback in wanted:
                    _call(callback, "on_update", update)

        return Hooks(received=received)

    def built(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._shown.built(simulation)

    def watch(self, run: Recorded, *, per_round: int, at_once: int) -> AbstractContextManager[object]:
        assert self._simulation is not None
        self._run = self._make(self._simulation, run)
        self._tell("on_start", self._run)
        return self._shown.watch(run, per_round=per_round, at_once=at_once)

    def device_done(self, device: str) -> None:
        self._shown.device_done(device)

    def round_done(self, result: RoundResult) -> None:
        assert self._simulation is not None
        self.run.hold(self._simulation, result.round)
        self._shown.round_done(result)
        self._ended = any(self._tell("on_round", self.run, result))

    def goes_on(self) -> bool:
        return not self._ended

    def warn(self, text: str) -> None:
        self._shown.warn(text)

    def end(self) -> None:
        """Tell the callbacks that the run is over."""
        self._tell("on_end", self.run)

    def _tell(self, method: str, *args: Any) -> list[Any]:
        return [_call(callback, method, *args) for callback in self._callbacks]


def _call(callback: Any, method: str, *args: Any) -> Any:
    function = getattr(callback, method, None)
    name = getattr(function, "__qualname__", method)
    return None if function is None else reported(function, f"callback {name}")(*args)


def _update(round_number: int, sent: Sent) -> Update:
    assert sent.update is not None
    return Update(
        round=round_number,
        device=sent.device.id,
        prototype=sent.device.prototype,
        examples=sent.update.num_examples,
        loss=sent.loss,
        bytes=sent.size,
        state=sent.update.state(),
    )
