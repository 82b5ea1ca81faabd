"""State dicts by role: tensors of the extractor and of the predictor. Imports no torch.

An update may contain a tensor that is not part of the model: FedDistill's `label-logits` (C, C). The values may be
torch tensors, NumPy arrays or packed wire tensors: only names and shapes are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from core.errors import ModelError

__all__ = ["EXTRACTOR_ROUND", "LABEL_LOGITS", "ROLES", "Role", "merge_state", "role_of", "slice_state", "split_extra"]

Role = Literal["extractor", "predictor"]
ROLES: tuple[Role, ...] = ("extractor", "predictor")
LABEL_LOGITS = "label-logits"
#: Metric of a published model: the last round that changed its extractor; without it no round has.
EXTRACTOR_ROUND = "extractor_round"
T = TypeVar("T")


def role_of(name: str) -> Role:
    """The role of the tensor called `name`: the part before its first dot."""
    first = name.partition(".")[0]
    for role in ROLES:
        if first == role:
            return role
    raise ModelError(f"tensor {name!r}: the name must start with {' or '.join(f'{role}.' for role in ROLES)}")


def slice_state(state: Mapping[str, T], role: Role) -> dict[str, T]:
    """The tensors of one role, under their full names.

    >>> slice_state({"extractor.fc.weight": 1, "predictor.weight": 2, "predictor.bias": 3}, "predictor")
    {'predictor.weight': 2, 'predictor.bias': 3}
    """
    if role not in ROLES:
        raise ModelError(f"unknown role {role!r}; known: {' '.join(ROLES)}")
    return {name: value for name, value in state.items() if role_of(name) == role}


def split_extra(tensors: Mapping[str, T]) -> tuple[dict[str, T], dict[str, T]]:
    """The tensors of an update that belong to the model, and the others.

    >>> split_extra({"predictor.bias": 1, "label-logits": 2})
    ({'predictor.bias': 1}, {'label-logits': 2})
    """
    model = {name: value for name, value in tensors.items() if name != LABEL_LOGITS}
    return model, {name: value for name, value in tensors.items() if name == LABEL_LOGITS}


def merge_state(state: Mapping[str, T], part: Mapping[str, T]) -> dict[str, T]:
    """`state` with the tensors of `part` in place of its own; neither input is modified.

    Every tensor of `part` must exist in `state` with the same shape.
    """
    for name, value in part.items():
        if name not in state:
            raise ModelError(f"tensor {name!r} has no counterpart in the model; is it from another prototype?")
        if _shape(value) != _shape(state[name]):
            raise ModelError(f"tensor {name!r} is {_shape(value)}, expected {_shape(state[name])}")
    return {**state, **part}


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "levels", value).shape)  # a packed tensor has the shape of its levels
