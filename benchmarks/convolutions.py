"""Convolutions in the frequency domain against torch's own: `python benchmarks/convolutions.py [--json] [--quick]`.

Forward and backward of one layer on a batch of 32, then a step of SGD of McMahan's CNN, one thread. Both variants take
turns in the same run; the ratio is that of the fastest turns. The error is the largest difference to the result in
float64, relative to the largest value. The last rows are shapes for which `quant.spectral.pays` is false.
`--quick`: one layer and the network, once each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from _quick import add_quick
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))

import quant.spectral
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from fleet.engines.heap import keep_freed_memory
from models.build import build
from models.spec import PrototypeSpec
from quant.precision import FP32
from quant.spectral import Conv2d, pays

ROWS = 32
#: (channels in, channels out, side of the image, side of the filter)
SHAPES = [(32, 64, 14, 5), (64, 64, 8, 5), (32, 32, 28, 5), (64, 64, 16, 7), (64, 64, 8, 3), (1, 32, 28, 5)]
TURNS = 12
Rule = Callable[..., bool]


def main() -> None:
    """Measure and print, with `--json` also as one object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    add_quick(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as in a worker of the simulation
    facts: dict[str, float] = {}
    for shape in SHAPES[:1] if args.quick else SHAPES:
        name, ratio = _layer(*shape, quick=args.quick)
        facts[name] = ratio
    facts["mcmahan_cnn"] = _network(quick=args.quick)
    if args.json:
        print(json.dumps(facts))


def _layer(c_in: int, c_out: int, side: int, kernel: int, *, quick: bool) -> tuple[str, float]:
    torch.manual_seed(0)
    layer = Conv2d(c_in, c_out, kernel, padding=kernel // 2).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(ROWS, c_in, side, side).contiguous(memory_format=torch.channels_last).requires_grad_()
    g = torch.randn(ROWS, c_out, side, side).contiguous(memory_format=torch.channels_last)
    wanted = [x, *layer.parameters()]
    used = pays(x.shape, layer.weight.shape, (kernel // 2, kernel // 2))
    ratio = _ratio(
        lambda: torch.autograd.grad(layer(x), wanted, g),
        ours=_always,
        turns=1 if quick else 40,
        times=1 if quick else TURNS,
    )
    exact = F.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=kernel // 2)  # type: ignore[union-attr]
    errors = [_by(rule, lambda: _off(layer, x, exact)) for rule in (_always, _never)]
    name = f"{c_in}-{c_out} {side}x{side} {kernel}x{kernel}"
    shown = f"error {errors[0]:.1e}, torch's {errors[1]:.1e}"
    print(f"{name:20s} {ratio:5.2f} times as fast as torch's; {shown}; {'' if used else 'not '}used")
    return name, round(ratio, 2)


def _off(layer: nn.Module, x: torch.Tensor, exact: torch.Tensor) -> float:
    return ((layer(x).double() - exact).abs().max() / exact.abs().max()).item()


def _network(*, quick: bool) -> float:
    spec = PrototypeSpec("mcmahan_cnn", FP32, (1, 28, 28), 10, 512)
    model = build(spec, generator=torch.Generator().manual_seed(0))
    x, y = torch.randn(5 * ROWS, 1, 28, 28), torch.randint(0, 10, (5 * ROWS,))
    how = LocalTraining(lr=0.01, batch_size=ROWS, epochs=1)
    work = partial(train_local, model, x, y, how, generator=torch.Generator().manual_seed(0))
    ratio = _ratio(work, ours=pays, turns=1 if quick else 4, times=1 if quick else TURNS)
    print(f"{'mcmahan_cnn':20s} {ratio:5.2f} times as fast, a whole step of SGD")
    return round(ratio, 2)


def _ratio(work: Callable[[], object], *, ours: Rule, turns: int, times: int) -> float:
    """Seconds of torch divided by ours: the best of `times` repetitions, each the mean of `turns` calls."""
    best = {ours: float("inf"), _never: float("inf")}
    for _ in range(times):
        for rule in best:
            best[rule] = min(best[rule], _by(rule, lambda: _seconds(work, turns)))
    return best[_never] / best[ours]


def _seconds(work: Callable[[], object], turns: int) -> float:
    work()
    start = time.perf_counter()
    for _ in range(turns):
        work()
    return (time.perf_counter() - start) / turns


def _by(rule: Rule, do: Callable[[], float]) -> float:
    """Call `do` while `rule` selects the convolutions in the frequency domain."""
    before = quant.spectral.pays
    quant.spectral.pays = rule  # type: ignore[assignment]
    try:
        return do()
    finally:
        quant.spectral.pays = before


def _always(*_: object) -> bool:
    return True


def _never(*_: object) -> bool:
    return False


if __name__ == "__main__":
    main()
