"""Variants of 1-bit networks, beside the product's: `benchmarks/binary_variants.py [--json] [--quick] [--keep FILE]`.

    edgestill simulate --dataset D --alpha 0.1 --recipe feddf --prototypes cnn:fp32,mlp:fp32,cnn:w1,cnn:w1a1

for MNIST and Fashion-MNIST on 12,000 images of the training set, 12 devices, 6 rounds, scored on 5,000 other ones of
the training set. The command runs in a process where `cnn` is patched in all precisions (quantized weights of teachers
are computed with in float layers), or, for `matrix`, the 1-bit linear layer:

- `matrix`: one midpoint and one scale for the matrix of a linear layer, instead of one per row;
- `gain`: a learned factor per output channel and row of the extractor, 1 at first (learned scales);
- `bi-real`: real-valued shortcuts around every convolution (Liu et al. 2018, arXiv:1808.00278), u' = norm(conv(act(u)))
  + shortcut(u), by average pooling and repeated channels, without parameters;
- `reactnet`: these shortcuts, RPReLU(u) = PReLU(u - gamma) + zeta, and a learned shift in front of the sign (Liu et al.
  2020, arXiv:2003.03488).

`cnn:w1` and `cnn:w1a1` are the accuracies in % of the fused models as boards run them. With `--keep` a run is a line of
FILE, and a run that is in it is not made again. `--quick`: one round of three devices with one variant on digits.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _data import use_shared_data
from _quick import add_quick
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from edgestill.cli.main import main as edgestill
from fleet.data import load
from models.zoo.cnn import FedGenCNN
from quant.binary import BinaryLinear

DATASETS = ("mnist", "fashion_mnist")
SEEDS = (20, 21, 22)
PROTOTYPES = ("cnn:w1", "cnn:w1a1")
TRAIN, TEST = 12_000, 5_000
Row = dict[str, Any]


def _matrix() -> None:
    BinaryLinear.group_dims = (0, 1)


def _after_building(change: Callable[[Any], None]) -> None:
    """Have every network of FedGen's CNN changed once it is built."""
    build = FedGenCNN.__init__

    def built(self: Any, *args: Any) -> None:
        build(self, *args)
        change(self)

    FedGenCNN.__init__ = built  # type: ignore[method-assign]


def _gain() -> None:
    def add(net: Any) -> None:
        net.gain1, net.gain2, net.gain3 = (nn.Parameter(torch.ones(n)) for n in (6, 16, 32))

    def times(layer: Any, x: Tensor, gain: Tensor) -> Tensor:
        y = layer(x)
        shape = (-1, 1, 1) if y.ndim == 4 else (-1,)
        bias = layer.bias.reshape(shape)
        scaled: Tensor = (y - bias) * gain.reshape(shape) + bias
        return scaled

    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.act1(self.norm1(times(self.conv1, x, self.gain1)))
        x = self.act2(self.norm2(times(self.conv2, x, self.gain2)))
        return times(self.fc, x.flatten(1), self.gain3)

    _after_building(add)
    FedGenCNN.forward = forward  # type: ignore[method-assign]


def _shortcut(u: Tensor, channels: int) -> Tensor:
    """`u` at half the size, its channels repeated up to `channels`."""
    half = F.avg_pool2d(u, 2, ceil_mode=True)
    return half.repeat(1, -(-channels // u.shape[1]), 1, 1)[:, :channels]


def _bi_real() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        u = self.norm1(self.conv1(x)) + _shortcut(x, 6)
        v = self.norm2(self.conv2(self.act1(u))) + _shortcut(u, 16)
        z: Tensor = self.fc(self.act2(v).flatten(1))
        return z

    FedGenCNN.forward = forward  # type: ignore[method-assign]


class _RPReLU(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(channels, 1, 1))
        self.zeta = nn.Parameter(torch.zeros(channels, 1, 1))
        self.slope = nn.Parameter(torch.full((channels,), 0.25))
        self.shift = nn.Parameter(torch.zeros(channels, 1, 1))  # of the sign that follows

    def forward(self, u: Tensor) -> Tensor:
        return F.prelu(u - self.gamma, self.slope) + self.zeta


def _reactnet() -> None:
    def add(net: Any) -> None:
        net.prelu1, net.prelu2 = _RPReLU(6), _RPReLU(16)

    def forward(self: Any, x: Tensor) -> Tensor:
        u = self.prelu1(self.norm1(self.conv1(x)) + _shortcut(x, 6))
        v = self.prelu2(self.norm2(self.conv2(self.act1(u + self.prelu1.shift))) + _shortcut(u, 16))
        z: Tensor = self.fc(self.act2(v + self.prelu2.shift).flatten(1))
        return z

    _after_building(add)
    FedGenCNN.forward = forward  # type: ignore[method-assign]


VARIANTS: Mapping[str, Callable[[], None]] = {
    "product": lambda: None,
    "matrix": _matrix,
    "gain": _gain,
    "bi-real": _bi_real,
    "reactnet": _reactnet,
}


def held_out(name: str, folder: Path) -> Path:
    """A dataset of samples of the training set alone: `TRAIN` to learn from, `TEST` others to score on."""
    data = load(name)
    x, y = np.asarray(data.x_train), np.asarray(data.y_train)
    order = np.random.default_rng(20).permutation(len(y))
    test, train = order[:TEST], order[TEST : TEST + TRAIN]
    path = folder / f"{name}.npz"
    np.savez(path, x_train=x[train], y_train=y[train], x_test=x[test], y_test=y[test])
    return path


def run(variant: str, flags: Sequence[str]) -> dict[str, float]:
    """One patched simulation in a process of its own; accuracy in % by quantized prototype."""
    command = [sys.executable, __file__, "--patched", variant, *flags]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    last = json.loads(done.stdout)["rounds"][-1]["prototypes"]
    return {name: 100 * last[name]["accuracy"] for name in PROTOTYPES}


def table(rows: Sequence[Row]) -> str:
    """One line a dataset and variant: accuracy by seed, and the mean difference to the product's."""
    lines = ["| dataset | variant | " + " | ".join(f"`{name}` | mean | to the product's" for name in PROTOTYPES) + " |"]
    lines.append("|" + "---|" * (2 + 3 * len(PROTOTYPES)))
    by = {(row["dataset"], row["variant"], row["seed"]): row for row in rows}
    for dataset, variant in dict.fromkeys((row["dataset"], row["variant"]) for row in rows):
        cells = [dataset, f"`{variant}`"]
        seeds = [seed for (d, v, seed) in by if (d, v) == (dataset, variant) and (d, "product", seed) in by]
        for name in PROTOTYPES:
            mine = [by[dataset, variant, seed][name] for seed in seeds]
            base = [by[dataset, "product", seed][name] for seed in seeds]
            cells += [", ".join(f"{a:.1f}" for a in mine)]
            cells += [f"{fmean(mine):.1f}", f"{fmean(mine) - fmean(base):+.1f}"] if mine else ["", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run, and print."""
    if sys.argv[1:2] == ["--patched"]:
        VARIANTS[sys.argv[2]]()
        edgestill(sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", metavar="VARIANT", default=[], help=", ".join(VARIANTS))
    parser.add_argument("--keep", type=Path, help="file that has a line for every run")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2, help="simulations side by side")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    add_quick(parser)
    asked = parser.parse_args()
    if set(asked.variants) - VARIANTS.keys():
        parser.error(f"no such variant; there are {', '.join(VARIANTS)}")
    use_shared_data()
    os.environ["OMP_NUM_THREADS"] = "1"
    variants = list(dict.fromkeys(["product", *(asked.variants or VARIANTS)]))
    flags = ["--alpha", "0.1", "--recipe", "feddf", "--workers", "1", "--score-devices", "never"]
    datasets, seeds = DATASETS, asked.seeds
    size = ["--prototypes", "cnn:fp32,mlp:fp32,cnn:w1,cnn:w1a1", "--rounds", "6", "--score-every", "6"]
    if asked.quick:
        datasets, seeds, variants = ("digits",), [0], ["product", "reactnet"]
        size = ["--devices", "2", "--prototypes", ",".join(PROTOTYPES), "--rounds", "1", "--local-steps", "2"]
        size += ["--fusion", "steps=2"]
    rows: list[Row] = []
    if asked.keep and asked.keep.exists():
        rows = [json.loads(line) for line in asked.keep.read_text().splitlines()]
    done = {(row["dataset"], row["variant"], row["seed"]) for row in rows}
    wanted = [(d, v, s) for s in seeds for d in datasets for v in variants if (d, v, s) not in done]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as threads:
        paths = {name: name if asked.quick else str(held_out(name, Path(folder))) for name in datasets}

        def one(cell: tuple[str, str, int]) -> Row:
            dataset, variant, seed = cell
            told = ["simulate", "--json", "--seed", str(seed), "--dataset", paths[dataset], *flags, *size]
            return {"dataset": dataset, "variant": variant, "seed": seed, **run(variant, told)}

        with asked.keep.open("a") if asked.keep else contextlib.nullcontext() as file:
            for row in threads.map(one, wanted):
                rows.append(row)
                print(json.dumps(row), file=file or sys.stderr, flush=True)
    print(table(rows))
    if asked.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
