"""The learning rate of a round, which may decay from round to round. Imports no torch.

    eta_t = eta d^(t - 1),   t = 1, 2, …        d = local_lr_decay of [fusion], 1 by default

FedGen's code has d = 0.99 for all of its recipes (Zhu et al. 2021). The aggregator puts eta_t into the jobs of round t,
so devices need not compute it. (In the authors' code a device uses the last round in which it took part; here the
current round, so that a device that was absent does not use an outdated rate.)
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wire.messages import Hyper

__all__ = ["LR_DECAY", "hyper_of_round", "round_lr"]

LR_DECAY = "local_lr_decay"


def round_lr(lr: float, extra: Mapping[str, float], number: int) -> float:
    """eta_t; `extra` has the other parameters sent to devices.

    >>> round_lr(0.1, {"local_lr_decay": 0.5}, 3)
    0.025
    """
    return lr * float(extra.get(LR_DECAY, 1.0)) ** (number - 1)


def hyper_of_round(hyper: Hyper, number: int) -> Hyper:
    """The hyper-parameters in the jobs of round `number`."""
    return msgspec.structs.replace(hyper, lr=round_lr(hyper.lr, hyper.extra, number))
