"""Local training of devices by a user's own function.

    objective   (logits, y) -> loss, or (model, x, y) -> loss: a mini-batch's, in place of cross-entropy
    train       (model, x, y, ...) -> loss or None: the whole loop; it changes the model in place, and may take
                training (`LocalTraining`), generator, round_number and device by these names

torch's random state is seeded from the device's seed around a loop of the user's, so a run is repeatable in any number
of workers as long as the function draws from torch.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from core import own_code
from core.entry_points import reported
from core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

    from edge_agent.training.params import LocalTraining
    from edge_agent.training.schedule import Trained
    from edge_agent.training.trainer import LossFunction, Objective

__all__ = ["Loop", "arguments_of_loss", "check_known", "find_loss", "find_objective", "own_loop"]

#: Trains a model in place: (model, x, y, hyper-parameters, generator=...).
Loop = Callable[..., "Trained"]


def arguments_of_loss(name: str, function: Callable[..., Any]) -> int:
    """How many arguments an own objective takes: 2 or 3."""
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) not in (2, 3):
        raise ConfigError(
            f"objective {name} takes {len(needed)} arguments; give a function (logits, y), or (model, x, y)"
        )
    return len(needed)


def find_loss(name: str) -> LossFunction | None:
    """The own loss (logits, y) of this name; None if there is none, or it takes the model."""
    return _own(name, 2)


def find_objective(name: str) -> Objective | None:
    """The own objective (model, x, y) of this name; None if there is none, or it takes logits."""
    return _own(name, 3)


def _own(name: str, arguments: int) -> Callable[..., Any] | None:
    function = _found("objective", name) if name else None
    if function is None or arguments_of_loss(name, function) != arguments:
        return None
    return reported(function, f"objective {own_code.plain_name(name)}")


def _found(kind: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = own_code.found(kind, name)
    if function is None:
        raise ConfigError(f"unknown {kind} {name!r}; give FILE.py:NAME, or the function itself from Python")
    return function


def check_known(kind: str, name: str) -> None:
    """Raise ConfigError for a name that is not lent."""
    if name:
        _found(kind, name)


def own_loop(name: str, given: Mapping[str, Any]) -> Loop | None:
    """The own training loop of this name, called as `train_local`; `given` are further arguments that it may take."""
    if not name:
        return None
    function = _found("train", name)
    takes = inspect.signature(function).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    call = reported(function, f"train {own_code.plain_name(name)}")

    def loop(
        model: nn.Module, x: Tensor, y: Tensor, training: LocalTraining, *, generator: Generator, **_: Any
    ) -> Trained:
        import torch

        from edge_agent.training.schedule import Trained
        from models.seeding import seeded

        more = {"training": training, "generator": generator, **given}
        model.train()
        with seeded(torch.Generator().manual_seed(generator.initial_seed() ^ 2)):
            loss = call(model, x, y, **{key: value for key, value in more.items() if anything or key in takes})
        return Trained(math.nan if loss is None else float(loss), 0, False)

    return loop
