"""Defaults of local training, shared by `edgestill simulate` and [train] of fleet.toml.

The learning rate is derived from batch size B and momentum beta:

    eta = BASE_LR (1 - beta) sqrt(B / BASE_BATCH)

Momentum lengthens a step by 1 / (1 - beta) in the long run, and the noise of a mini-batch's gradient decreases with
sqrt(B). Because gradients are clipped to the norm c, no step is longer than eta c / (1 - beta). Local work is EPOCHS
passes over a device's samples, of at least LEAST_STEPS and at most MOST_STEPS mini-batches.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import Annotated, Any, Literal, get_args

from core import limits
from core.errors import ConfigError
from core.limits import BATCH, LR, STEPS, WEIGHT
from core.settings import Settings, within

__all__ = [
    "BATCH_SIZE",
    "CLIP",
    "FAST",
    "MOMENTUM",
    "Fast",
    "LocalSettings",
    "auto_lr",
    "check_bounds",
    "check_momentum",
    "lr_or_auto",
    "with_defaults",
]

BASE_LR = 0.3  # without momentum, at BASE_BATCH
BASE_BATCH = 32
BATCH_SIZE = 32
MOMENTUM = 0.9
CLIP = 1.0
EPOCHS = 2
LEAST_STEPS = 50
MOST_STEPS = 100
#: Whether hand-written fast paths may be taken.
Fast = Literal["auto", "off"]
FAST = get_args(Fast)


def lr_or_auto(value: Any) -> float | Literal["auto"]:
    """A learning rate as a file, a variable or a flag has it; ValueError says how to write one.

    >>> lr_or_auto(" 1e-2 "), lr_or_auto(1), lr_or_auto("auto")
    (0.01, 1.0, 'auto')
    """
    if isinstance(value, str) and value.strip() == "auto":
        return "auto"
    try:
        rate = nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        rate = nan
    if not LR.least <= rate <= LR.most:
        raise ValueError(f"give a number above 0 and at most {LR.most:g}, such as 0.03, or auto")
    return rate


def _given_lr(value: Any) -> float | None:
    rate = lr_or_auto(value)
    return None if rate == "auto" else rate


class LocalSettings(Settings, frozen=True, kw_only=True):
    """What somebody may say of local training, each by itself; `with_defaults` says what holds where it is None."""

    lr: (
        Annotated[float, within(0, LR.most, "eta; auto: it follows from batch size and momentum", parse=_given_lr)]
        | None
    ) = None
    batch_size: Annotated[int, within(1, BATCH.most, "B")] | None = None
    epochs: (
        Annotated[int, within(1, limits.EPOCHS.most, "passes over a device's samples", excludes=("steps",))] | None
    ) = None
    steps: (
        Annotated[
            int,
            within(1, STEPS.most, "mini-batches, instead of epochs", excludes=("epochs", "least_steps", "most_steps")),
        ]
        | None
    ) = None
    least_steps: Annotated[int, within(0, STEPS.most, "mini-batches that epochs are extended to; 0: any")] | None = None
    most_steps: Annotated[int, within(0, STEPS.most, "mini-batches that epochs are cut to; 0: any")] | None = None
    momentum: Annotated[float, within(0, 0.999999)] | None = None
    weight_decay: Annotated[float, within(0, WEIGHT.most)] = 0.0
    prox: Annotated[float, within(0, WEIGHT.most, "mu of FedProx; by default the recipe's")] | None = None
    clip: Annotated[float, within(0, limits.CLIP.most, "greatest norm of a gradient; 0: any")] | None = None


def auto_lr(batch_size: int, momentum: float) -> float:
    """The default learning rate, rounded to four digits."""
    BATCH.check(batch_size, "local training: batch size")
    check_momentum(momentum)
    return float(f"{BASE_LR * (1 - momentum) * sqrt(batch_size / BASE_BATCH):.4g}")


def with_defaults(**given: Any) -> dict[str, Any]:
    """Every setting of local training; None means not given. `epochs` or `steps`, if given, are followed exactly.

    >>> found = with_defaults(steps=7, momentum=0.0)
    >>> found["lr"], found["epochs"], found["steps"], found["least_steps"]
    (0.3, None, 7, 0)
    """
    said = {name: value for name, value in given.items() if value is not None}
    amount: dict[str, Any] = {"epochs": None, "steps": None, "least_steps": 0, "most_steps": 0}
    if "epochs" not in said and "steps" not in said:
        amount |= {"epochs": EPOCHS, "least_steps": LEAST_STEPS, "most_steps": MOST_STEPS}
    found = {"batch_size": BATCH_SIZE, "momentum": MOMENTUM, "clip": CLIP, **amount, **said}
    return {"lr": auto_lr(found["batch_size"], found["momentum"]), **found}


def check_momentum(momentum: float) -> None:
    """Refuse a momentum that would diverge."""
    if not 0 <= momentum < 1:
        raise ConfigError(f"local training: momentum {momentum}; give a number in [0, 1)")


def check_bounds(steps: int | None, least: int, most: int) -> None:
    """Refuse bounds on the number of steps that contradict it or each other; 0 means no bound."""
    if steps is not None and (least or most):
        raise ConfigError("local training: least_steps and most_steps go with epochs, not with steps")
    if most and least > most:
        raise ConfigError(f"local training: least_steps {least} is more than most_steps {most}")
