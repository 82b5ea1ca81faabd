"""Networks as chains of layers whose hidden units can be permuted without changing the network's function.

A unit is a row of its layer's weight and bias, and a column of the next layer's weight. If a convolution is flattened
into a linear layer, each of its channels has as many columns there as the map has positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from aggregator.fusion.types import State
from core import own_code
from core.errors import ConfigError
from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype
from quant.precision import FP32

__all__ = ["chain_of", "reorder_inputs", "reorder_outputs", "reordered", "rows"]


@lru_cache(maxsize=64)
def chain_of(spec: PrototypeSpec) -> tuple[str, ...]:
    """The names of the prototype's layers, from input to output; `ConfigError` if they are not such a chain.

    It is verified empirically: a network with randomly permuted hidden units must compute the same function. So it also
    works for unknown architectures.
    """
    seed = torch.Generator().manual_seed(0)
    model = build(replace(spec, precision=FP32), generator=seed).double().eval()
    names = [_matchable(spec, name, module) for name, module in model.named_modules() if _has_tensors(module)]
    if not names or not _survives_reordering(model, names, seed):
        raise _refusal(spec, "its layers are not in plain sequence")
    return tuple(names)


own_code.when_changed(chain_of.cache_clear)


def _has_tensors(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False)) or any(True for _ in module.buffers(recurse=False))


def _matchable(spec: PrototypeSpec, name: str, module: nn.Module) -> str:
    if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.groups == 1):
        return name
    raise _refusal(spec, f"{name!r} is a {type(module).__name__}")


def _refusal(spec: PrototypeSpec, why: str) -> ConfigError:
    return ConfigError(
        f"{spec} cannot be matched: {why}; average 'matched' takes convolutions and linear layers in sequence, as in "
        "vgg9 and mlp"
    )


def _survives_reordering(model: Prototype, names: Sequence[str], seed: torch.Generator) -> bool:
    state = {name: w.detach() for name, w in model.state_dict().items()}
    widths = [len(state[f"{name}.weight"]) for name in names]
    fans = [state[f"{name}.weight"].shape[1] for name in names]
    if any(fan % width for width, fan in zip(widths, fans[1:], strict=False)):
        return False
    x = model.example_input(4, generator=seed).double()
    with torch.no_grad():
        before = model(x)
        model.load_state_dict(reordered(state, names, [torch.randperm(n, generator=seed) for n in widths[:-1]]))
        return torch.allclose(before, model(x), rtol=1e-6, atol=1e-9)


def reordered(state: Mapping[str, Tensor], names: Sequence[str], orders: Sequence[Tensor]) -> State:
    """The same network with the units of all layers except the last permuted: the i-th was the orders[l][i]-th."""
    made = dict(state)
    for name, following, order in zip(names, names[1:], orders, strict=False):
        reorder_outputs(made, name, order)
        reorder_inputs(made, following, order)
    return made


def reorder_outputs(state: State, name: str, order: Tensor) -> None:
    """Permute the units of layer `name` in `state`."""
    for tensor in (f"{name}.weight", f"{name}.bias"):
        if tensor in state:
            state[tensor] = state[tensor][order]


def reorder_inputs(state: State, name: str, order: Tensor) -> None:
    """Permute the inputs of layer `name` accordingly."""
    weight = state[f"{name}.weight"]
    grouped = weight.reshape(len(weight), len(order), -1)  # (out, units of the layer before, columns of each)
    state[f"{name}.weight"] = grouped[:, order].reshape(weight.shape)


def rows(state: Mapping[str, Tensor], name: str) -> Tensor:
    """The units of layer `name` as vectors: incoming weights and bias, (units, fan-in + 1), float64."""
    parts = [state[f"{name}.weight"].flatten(1)]
    if f"{name}.bias" in state:
        parts.append(state[f"{name}.bias"][:, None])
    return torch.cat(parts, dim=1).double()
