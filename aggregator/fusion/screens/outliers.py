"""Screens: why an update is excluded from its prototype's average, or None if it stays. No screen excludes all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from torch import Tensor

from aggregator.evaluate import evaluate
from aggregator.fusion.numerics.vectors import States
from aggregator.fusion.options import real
from aggregator.fusion.types import View
from core.errors import ConfigError
from models.build import build
from quant.layers import weights_as_they_are
from quant.pack import load_packed, pack_state

__all__ = ["CHANCE_FACTOR", "accuracies", "drop_worst", "finite", "laggards", "worst"]

CHANCE_FACTOR = 1.2  # below this times chance, a model has learned nothing
DEVIATIONS = 1.5  # below the mean: an outlier


def finite(view: View) -> list[str | None]:
    """Exclude updates with other tensors than the published model, or with non-finite values.

    Updates from devices have passed both checks at intake; this is for states from other sources.
    """
    return [_unsound(view, k) for k in range(len(view.updates))]


def _unsound(view: View, k: int) -> str | None:
    state = view.updates[k].state()
    for name in sorted(state.keys() ^ view.previous.keys()):
        return f"{name!r} is {'unexpected' if name in state else 'missing'}"
    for name, tensor in state.items():
        if tensor.shape != view.previous[name].shape:
            return f"{name!r} is {tuple(tensor.shape)}, expected {tuple(view.previous[name].shape)}"
        if not bool(tensor.isfinite().all()):
            return f"{name!r} has values that are not finite"
    return None


def drop_worst(view: View) -> list[str | None]:
    """Exclude models that are bad on the validation set: by `worst`, or by `laggards` with option `drop_below`."""
    if view.server.validation is None:
        raise ConfigError("the screen 'drop-worst' needs labelled samples: give a validation set, or drop the screen")
    share = real(view, "drop_below", 0.0, low=0.0, high=1.0)
    accuracy = accuracies(view, States(view.updates))
    return laggards(accuracy, share) if share else worst(accuracy, view.spec.classes)


def accuracies(view: View, states: Sequence[Mapping[str, Tensor]]) -> list[float]:
    """Top-1 of every state on the validation set, with its weights as received."""
    assert view.server.validation is not None
    x, y = (t.to(view.server.device) for t in view.server.validation)
    model = build(view.spec).to(view.server.device)
    top1 = []
    for state in states:
        load_packed(model, pack_state(state, floats="fp32"))
        with weights_as_they_are(model):  # received weights are already quantized
            top1.append(evaluate(model, x, y).accuracy)
    return top1


def worst(accuracy: Sequence[float], classes: int) -> list[str | None]:
    """FedDF's drop-worst, as applied to teachers in its code (Lin et al. 2020, arXiv:2006.07242, section 4.3).

        drop k if a_k < 1.2 / C
        if that is none: drop k if b_k < mean(b') - 1.5 std(b'),   b = a / sum(a), b' = b without its maximum

    The standard deviation is the population's. With two updates b' is one number with deviation 0, and none is below
    it. If the first rule would drop all updates, as in the first rounds of a hard task, it does not discriminate, and
    none is dropped.
    """
    cut = CHANCE_FACTOR / classes
    useless = [a < cut for a in accuracy]
    if all(useless):
        return [None] * len(accuracy)
    if any(useless):
        why = f"below {CHANCE_FACTOR} times chance"
        return [f"accuracy {a:.3f} is {why}" if bad else None for a, bad in zip(accuracy, useless, strict=True)]
    return _outliers(accuracy)


def laggards(accuracy: Sequence[float], share: float) -> list[str | None]:
    """Ours: drop k if a_k < share max_j a_j.

    A device that trains on wrong labels falls behind the others in every round, further as they improve, but soon
    exceeds 1.2 times chance.
    """
    cut = share * max(accuracy)
    return [f"accuracy {a:.3f} is below {share:g} of the best" if a < cut else None for a in accuracy]


def _outliers(accuracy: Sequence[float]) -> list[str | None]:
    total = sum(accuracy)
    share = [a / total for a in accuracy]
    rest = sorted(share)[:-1]
    if not rest:
        return [None]
    cut = fmean(rest) - DEVIATIONS * pstdev(rest)
    why = f"below the others' mean by {DEVIATIONS} deviations"
    tolerance = 1e-12  # equal accuracies differ from their mean by rounding
    return [f"accuracy {a:.3f} is {why}" if b < cut - tolerance else None for a, b in zip(accuracy, share, strict=True)]
