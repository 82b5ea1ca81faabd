"""An own network split into extractor and predictor, so that predictor(extractor(x)) is what it computes.

By hand: a network with the modules `extractor` and `predictor`. Otherwise by its last linear layer, or the layer that
the user names: the network runs once on an example, and the layer must have made the logits, from an input (B, width).
The extractor is then the network with the identity in the place of that layer.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from core.errors import ModelError, did_you_mean
from models.own.network import OwnNetwork
from models.spec import PrototypeSpec

__all__ = ["Body", "Split", "split_network"]

ROWS = 3  # of the example
EXTRACTOR, PREDICTOR = "extractor", "predictor"


class Split(NamedTuple):
    """The parts of a network, and the width of the latent between them."""

    body: Body
    predictor: nn.Module
    width: int


class Body(nn.Module):
    """A network without the layer that makes the logits; draws of `F.dropout` are seeded like those of `nn.Dropout`."""

    may_draw = True

    def __init__(self, net: nn.Module, width: int, tokens: int | None) -> None:
        super().__init__()
        self.net = net
        self.width = width
        self.tokens = tokens

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.net(x)
        return z


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a network is split; found once for each shape of input."""

    layer: str  # empty: by hand
    width: int
    tokens: int | None


def split_network(net: nn.Module, network: OwnNetwork, spec: PrototypeSpec) -> Split:
    """Split `net`, an instance of `network`, which is changed; ModelError says why it cannot be."""
    key = (spec.input_shape, spec.classes)
    if key not in network.cuts:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            network.cuts[key] = _find(net, network, spec)
    cut: Cut = network.cuts[key]
    if not cut.layer:
        return Split(Body(getattr(net, EXTRACTOR), cut.width, cut.tokens), getattr(net, PREDICTOR), cut.width)
    holder, _, name = cut.layer.rpartition(".")
    layer = net.get_submodule(cut.layer)
    setattr(net.get_submodule(holder), name, nn.Identity())
    return Split(Body(net, cut.width, cut.tokens), layer, cut.width)


def _find(net: nn.Module, network: OwnNetwork, spec: PrototypeSpec) -> Cut:
    was_training = net.training
    net.eval()
    try:
        x, tokens = _example(net, spec)
        by_hand = all(isinstance(getattr(net, part, None), nn.Module) for part in (EXTRACTOR, PREDICTOR))
        if by_hand and network.predictor is None:
            return _by_hand(net, spec, x, tokens)
        return _by_layer(net, network, spec, x, tokens)
    finally:
        net.train(was_training)


def _by_hand(net: nn.Module, spec: PrototypeSpec, x: Tensor, tokens: int | None) -> Cut:
    z = _run(spec, net.get_submodule(EXTRACTOR), x)
    _check_latent(spec, "its extractor", z)
    logits = _run(spec, net, x)
    _check_logits(spec, logits)
    if not torch.equal(_run(spec, net.get_submodule(PREDICTOR), z), logits):
        raise ModelError(f"{spec}: predictor(extractor(x)) is not what the network computes; make forward do just that")
    return Cut("", z.shape[1], tokens)


def _by_layer(net: nn.Module, network: OwnNetwork, spec: PrototypeSpec, x: Tensor, tokens: int | None) -> Cut:
    layers = {name: module for name, module in net.named_modules() if name}
    wanted = network.predictor
    if wanted is not None and wanted not in layers:
        hint = did_you_mean(wanted, layers) or f"; it has {' '.join(layers)}"
        raise ModelError(f"{spec}: predictor={wanted!r}: the network has no such layer{hint}")
    watched = [wanted] if wanted is not None else [n for n, m in layers.items() if isinstance(m, nn.Linear)]
    logits, calls, times = _watched(net, spec, x, {layers[name]: name for name in watched})
    _check_logits(spec, logits)
    made = [(name, z) for name, z, out in calls if out.shape == logits.shape and torch.equal(out, logits)]
    if not made:
        layer = f"layer {wanted!r} does not make its logits" if wanted else "no linear layer makes its logits"
        raise ModelError(
            f"{spec}: {layer}; return what it gives, without a softmax, name the layer that does with "
            "es.prototype(..., predictor='NAME'), or give the network the modules extractor and predictor"
        )
    name, z = made[-1]
    if times[name] > 1:
        raise ModelError(f"{spec}: layer {name!r} is called {times[name]} times; the predictor must be called once")
    _check_latent(spec, f"what layer {name!r} takes", z)
    return Cut(name, z.shape[1], tokens)


def _watched(
    net: nn.Module, spec: PrototypeSpec, x: Tensor, names: dict[nn.Module, str]
) -> tuple[Tensor, list[tuple[str, Any, Tensor]], Counter[str]]:
    """The logits, what each watched layer took and gave, and how often it was called."""
    calls: list[tuple[str, Any, Tensor]] = []

    def note(module: nn.Module, taken: tuple[Any, ...], out: Any) -> None:
        if taken and isinstance(out, Tensor):
            calls.append((names[module], taken[0], out.clone()))

    handles = [module.register_forward_hook(note) for module in names]
    try:
        logits = _run(spec, net, x)
    finally:
        for handle in handles:
            handle.remove()
    return logits, calls, Counter(name for name, *_ in calls)


def _example(net: nn.Module, spec: PrototypeSpec) -> tuple[Tensor, int | None]:
    """A few inputs, and the size of the vocabulary if they are token ids: where there is an embedding."""
    tokens = getattr(net, "tokens", None)
    embedding = next((m for m in net.modules() if isinstance(m, nn.Embedding)), None)
    if tokens is None and embedding is not None and len(spec.input_shape) == 1:
        tokens = embedding.num_embeddings
    shape = (ROWS, *spec.input_shape)
    if tokens is not None:
        return torch.arange(math.prod(shape)).reshape(shape) % tokens, tokens
    return torch.linspace(-1, 1, math.prod(shape)).reshape(shape), None


def _run(spec: PrototypeSpec, module: nn.Module, x: Tensor) -> Tensor:
    try:
        out = module(x)
    except Exception as error:  # a user's forward may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelError(f"{spec}: fails on inputs {tuple(x.shape)} ({reason})") from error
    if not isinstance(out, Tensor):
        raise ModelError(f"{spec}: returns a {type(out).__name__}; return the logits alone, a tensor (B, classes)")
    return out


def _check_latent(spec: PrototypeSpec, what: str, z: Any) -> None:
    if not isinstance(z, Tensor) or z.ndim != 2 or len(z) != ROWS:
        shape = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
        raise ModelError(f"{spec}: {what} is {shape}, expected (B, width); flatten before it")


def _check_logits(spec: PrototypeSpec, logits: Tensor) -> None:
    if logits.shape != (ROWS, spec.classes):
        raise ModelError(
            f"{spec}: gives {tuple(logits.shape)} for {ROWS} inputs, expected ({ROWS}, {spec.classes}): logits of "
            f"{spec.classes} classes; a class of yours may take `classes` as an argument"
        )
