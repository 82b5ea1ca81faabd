"""FedMGDA+ and FedMGDA++: weights of devices from distance and direction of their updates.

plus       Hu et al. 2020, arXiv:2006.11489: the common descent direction of all devices, normalised and bounded
plusplus   the baseline of Sturluson et al. 2021 (FedRAD): lambda learned by SGD, outliers blocked permanently

    facts["fedmgda/<prototype>/lambda"]    {device: lambda}; a new device starts at the mean of the others
    facts["fedmgda/<prototype>/blocked"]   {device: round}
    facts["fedmgda/<prototype>/pace"]      lr, multiplier and the last error of plusplus, and how many it just blocked
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from aggregator.fusion.numerics.geometry import distances_to, gram
from aggregator.fusion.numerics.vectors import States
from aggregator.fusion.options import flag, real
from aggregator.fusion.screens.outliers import accuracies
from aggregator.fusion.types import View
from aggregator.fusion.weights.mgda_solver import Pace, common_direction, cut_off, lambda_step, lambda_steps_in_turn
from aggregator.fusion.weights.order import by_device
from core.errors import ConfigError

__all__ = ["blocked", "fedmgda"]


def blocked(view: View) -> list[str | None]:
    """The screen `fedmgda-blocked`: exclude devices blocked in an earlier round."""
    since = view.memory.facts.get(f"fedmgda/{view.spec}/blocked", {})
    return [f"blocked by fedmgda since round {since[d]}" if d in since else None for d in view.devices]


@by_device
def fedmgda(view: View) -> list[float]:
    """The part `fedmgda`.

    Options: `fedmgda`, "plusplus" (default) or "plus"; `fedmgda_epsilon` of plus, 0.1; `fedmgda_reference`, plusplus
    as in FedRAD's code: it takes a step for each device in turn (by id) and does not normalize distances, so that its
    learning rate fits one network. Here distances are divided by their median, and lambda by its mean, every round.
    Momentum starts at 0 each round in both. Weights are all 0 if only blocked devices answered.
    """
    form = view.options.get("fedmgda", "plusplus")
    if form == "plus":
        return _plus(view)
    if form == "plusplus":
        return _plusplus(view)
    raise ConfigError(f"fedmgda = {form!r} must be 'plusplus' or 'plus'")


def _plus(view: View) -> list[float]:
    """lambda_k / ||g_k||, by the step w <- w - eta sum lambda_k g_k / ||g_k||, g_k = w - w_k; eta makes the sum 1.

    A device that did not move is treated as having the median norm.
    """
    products = gram(States(view.updates), centre=view.previous)
    norms = products.diagonal().sqrt()
    moved = norms > 0
    norms = torch.where(moved, norms, norms[moved].median() if moved.any() else torch.ones(()))
    start = torch.tensor(view.num_examples, dtype=torch.float64)
    epsilon = real(view, "fedmgda_epsilon", 0.1, low=0, high=1)
    best = common_direction(products / norms.outer(norms), start / start.sum(), epsilon)
    weights = best / norms
    return (weights / weights.sum()).tolist()


def _plusplus(view: View) -> list[float]:
    memory, prefix = view.memory.facts, f"fedmgda/{view.spec}/"
    reference = flag(view, "fedmgda_reference")
    known: dict[str, float] = memory.get(prefix + "lambda", {})
    barred: dict[str, int] = memory.get(prefix + "blocked", {})
    pace = _pace(view, memory.get(prefix + "pace"))
    allowed = [update for update in view.updates if update.device not in barred]
    if not allowed:
        return [0.0] * len(view.updates)
    before = _start(known, [u.device for u in allowed])
    far = distances_to(view.previous, States(allowed))
    if reference:
        stepped = lambda_steps_in_turn(far, before, pace.lr)
    else:
        stepped = lambda_step(far / (far.median() if far.median() > 0 else 1.0), before, pace.lr)
    after = cut_off(stepped, pace.multiplier)
    if not after.any():  # a step that would exclude all devices is too long: skip it
        after = before
    if not reference:
        after = after / after[after > 0].mean()
    shares = {u.device: value for u, value in zip(allowed, after.tolist(), strict=True)}
    newly = {device: view.round_number for device, value in shares.items() if value == 0}
    memory[prefix + "lambda"] = {d: v for d, v in {**known, **shares}.items() if d not in newly}
    memory[prefix + "blocked"] = {**barred, **newly}
    memory[prefix + "pace"] = asdict(replace(pace, newly=len(newly)))
    return [shares.get(device, 0.0) for device in view.devices]


def _start(known: dict[str, float], devices: list[str]) -> Tensor:
    usual = sum(known.values()) / len(known) if known else 1.0
    return torch.tensor([known.get(device, usual) for device in devices], dtype=torch.float64)


def _pace(view: View, kept: dict[str, Any] | None) -> Pace:
    """The pace follows the error of the last round's published model on the validation set, if there is one."""
    if kept is None:
        return Pace()
    error = None if view.server.validation is None else 1.0 - accuracies(view, [view.previous])[0]
    return Pace(**kept).adapted(error)
