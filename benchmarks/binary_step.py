"""Cost of one training step with 1-bit layers, against float32: `python benchmarks/binary_step.py [--json] [--quick]`.

Forward, backward and SGD on one batch of 32 images of 3x32x32, one thread. All variants take turns step by step in the
same run, so that a busy machine slows all of them; the ratio is that of the medians of the process's own CPU time.
The rows named brevitas are the same network with Brevitas' 1-bit layers. `--quick`: one step of a small CNN.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from _quick import add_quick
from brevitas import nn as qnn
from brevitas.quant import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from models.registry import architecture
from quant.layers import Layers, layers_for
from quant.precision import FP32, Precision, parse_precision

LIMIT = 1.25  # maximum cost of our layers, relative to float32
INPUT_SHAPE = (3, 32, 32)


@dataclass(frozen=True, slots=True)
class BrevitasBinaryLayers:
    """Brevitas' own 1-bit layers, for comparison."""

    precision: Precision

    def conv2d(
        self,
        c_in: int,
        c_out: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> nn.Module:
        return qnn.QuantConv2d(
            c_in,
            c_out,
            kernel,
            stride=stride,
            padding=padding,
            groups=groups,
            bias=bias,
            weight_quant=SignedBinaryWeightPerTensorConst,
        )

    def linear(self, d_in: int, d_out: int, *, bias: bool = True) -> nn.Module:
        return qnn.QuantLinear(d_in, d_out, bias=bias, weight_quant=SignedBinaryWeightPerTensorConst)

    def activation(self) -> nn.Module:
        if self.precision.act_bits is None:
            return nn.ReLU()
        return qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst)


def network(arch: str, layers: Layers) -> nn.Module:
    """The architecture without an adapter, and its predictor."""
    torch.manual_seed(0)
    body = architecture(arch)(layers, INPUT_SHAPE)
    return nn.Sequential(body, layers.linear(body.width, 10))


def training_step(net: nn.Module, batch: int) -> Callable[[], None]:
    """One step of SGD on a fixed batch."""
    x = torch.randn(batch, *INPUT_SHAPE)
    y = torch.arange(batch) % 10
    params = list(net.parameters())

    def step() -> None:
        grads = torch.autograd.grad(F.cross_entropy(net(x), y), params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-0.01)

    return step


def medians(steps: dict[str, Callable[[], None]], repeat: int) -> dict[str, float]:
    """Median CPU milliseconds of each step; the variants take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeat + 3):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if turn >= 3:  # the first turns warm up
                seconds[name].append(time.process_time() - start)
    return {name: 1000 * statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=["resnet8"], help="zoo names")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=60, help="timed steps of each variant")
    parser.add_argument("--json", action="store_true", help="end with one JSON object of the ratios")
    add_quick(parser)
    args = parser.parse_args()
    if args.quick:
        args.arch, args.batch, args.repeat = ["cnn"], 4, 1
    torch.set_num_threads(1)
    w1, w1a1 = parse_precision("w1"), parse_precision("w1a1")
    makers: dict[str, Layers] = {
        "fp32": layers_for(FP32),
        "w1": layers_for(w1),
        "w1a1": layers_for(w1a1),
        "brevitas-w1": BrevitasBinaryLayers(w1),
        "brevitas-w1a1": BrevitasBinaryLayers(w1a1),
    }
    ratios: dict[str, float] = {}
    print(f"{'network':12}{'layers':16}{'ms/step':>9}{'x fp32':>9}    one thread, batch {args.batch}")
    for arch in args.arch:
        ms = medians({name: training_step(network(arch, m), args.batch) for name, m in makers.items()}, args.repeat)
        for name, value in ms.items():
            ratios[f"{arch}:{name}"] = round(value / ms["fp32"], 3)
            print(f"{arch:12}{name:16}{value:9.1f}{value / ms['fp32']:9.2f}")
    if args.json:
        print(json.dumps({**ratios, "limit": LIMIT}))


if __name__ == "__main__":
    main()
