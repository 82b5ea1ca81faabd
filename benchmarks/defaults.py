"""Every recipe with nothing but its defaults: `benchmarks/defaults.py [--json] [--quick] [--keep FILE] [RECIPE ...]`.

    edgestill simulate --dataset D --alpha A --recipe R --seed S        12 devices, three prototypes, 10 rounds

for digits, MNIST and Fashion-MNIST, alpha 0.1 and 1, three seeds. Beside every recipe stand local training alone (as
`local`) and FedAvg: a recipe that comes out below either by more than two points is marked. `deployed` is the accuracy
of what a board runs, mean over the prototypes; `float` that of the same models with full-precision weights; `own` that
of every device's model on its own kind of data after its local training, mean and worst. Recipes that the default
prototypes do not suit run with others (`OTHER`), beside a FedAvg of the same. `lost` are devices whose training failed,
`excluded` those that the recipe excluded, both summed over the rounds; with `--attacks`, `attackers` is their share of
the averages in %, mean over the rounds.

Only the last round is scored (`--score-every 10`), and `--jobs` simulations of one worker each run side by side
(`--workers 1`); neither changes a model. `CPU s` is the processor time of a round, on one core: the wall-clock time of
the rounds times the fraction of it in which the command computed, which the load of the machine changes little.
`x FedAvg` is its ratio to that of FedAvg with the same fleet and seeds. With `--keep` a run is a line of FILE, and a
run that is in it is not made again: what was interrupted goes on.

`--quick`: three devices with digits, one round of FedAvg and of local training.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from _data import use_shared_data
from _quick import add_quick

sys.path.insert(0, str(Path(__file__).parents[1]))

from aggregator.recipes.catalogue import RECIPES

DATASETS = ("digits", "mnist", "fashion_mnist")
ALPHAS = (0.1, 1.0)
SEEDS = (31, 32, 33)
ROUNDS = 10
LEAST = 2.0  # points that a recipe may be below local training and FedAvg
OTHER = {"fedma": "mlp:fp32"}  # matched averaging knows perceptrons and VGG-9 alone
BASES = ("local", "fedavg")
CELL = ("dataset", "alpha", "devices", "attack", "prototypes", "recipe")  # what a run is, but for its seed
#: Columns: key of a run, and head.
NUMBERS = {
    "deployed": "deployed",
    "float": "float weights",
    "own": "own: mean",
    "own_worst": "worst",
    "cpu": "CPU s",
    "times": "x FedAvg",
    "lost": "lost",
    "excluded": "excluded",
    "attackers": "attackers",
}
Row = dict[str, Any]


def cells(asked: argparse.Namespace) -> Iterator[Row]:
    """What to run; the baselines first, and FedAvg with the prototypes of those that need others."""
    recipes = asked.recipes or tuple(RECIPES)
    names = [*BASES, *(name for name in recipes if name not in BASES)]
    for dataset, alpha, attack in product(asked.datasets, asked.alphas, asked.attacks):
        cell = {"dataset": dataset, "alpha": alpha, "devices": asked.devices, "attack": attack}
        for recipe in names:
            prototypes = OTHER.get(recipe, "")
            yield {**cell, "recipe": recipe, "prototypes": prototypes}
            if prototypes:
                yield {**cell, "recipe": "fedavg", "prototypes": prototypes}


def run(cell: Row, seed: int, more: Sequence[str]) -> Row:
    """One simulation, by the command that a user types; what came out of it."""
    command = [sys.executable, "-m", "edgestill", "simulate", "--json", "--seed", str(seed)]
    command += ["--workers", "1", *more]
    command += ["--dataset", cell["dataset"], "--alpha", str(cell["alpha"]), "--recipe", cell["recipe"]]
    command += ["--prototypes", cell["prototypes"]] if cell["prototypes"] else []
    command += ["--attack", cell["attack"]] if cell["attack"] else []
    command += ["--devices", str(cell["devices"])]
    done = measured(command)
    if done.code:
        return {**cell, "seed": seed, "error": done.err.strip().splitlines()[-1]}
    row = {**cell, "seed": seed, **facts(json.loads(done.out))}
    return row | {"cpu": row["seconds"] * done.busy}


class Measured(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str
    busy: float  # processor time, also of its workers, over wall-clock time


def measured(command: Sequence[str]) -> Measured:
    """Run `command`."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        for file in (out, err):
            file.seek(0)
        busy = (usage.ru_utime + usage.ru_stime) / wall
        return Measured(process.returncode, out.read().decode(), err.read().decode(), busy)


def facts(told: Mapping[str, Any]) -> Row:
    """The numbers of a `run.json`."""
    rounds = told["rounds"]
    last = rounds[-1]["prototypes"].values()
    bad = [device["device"] for device in told["fleet"] if "attack" in device]
    own = [device["own_accuracy"] for device in rounds[-1]["devices"].values() if "own_accuracy" in device]
    shared = [p["accuracy"] for p in last]
    whole = [device["whole_accuracy"] for device in rounds[-1]["devices"].values() if "whole_accuracy" in device]
    kept = all(p.get("device_accuracy") is not None for p in last)  # no model is shared
    if kept:
        shared = [p["device_accuracy"] for p in last]
    return {
        "deployed": 100 * fmean(shared),
        "float": None if kept else 100 * fmean(p.get("accuracy_float", p["accuracy"]) for p in last),
        "by_prototype": {name: 100 * p["accuracy"] for name, p in rounds[-1]["prototypes"].items()},
        "own": 100 * fmean(own) if own else None,
        "own_worst": 100 * min(own) if own else None,
        "whole": 100 * fmean(whole) if whole else None,
        "seconds": fmean(r["seconds"] for r in rounds),
        "lost": sum(len(r.get("lost", {})) for r in rounds),
        "excluded": sum(1 for r in rounds for d in r["devices"].values() if d.get("screened")),
        "attackers": 100 * fmean(sum(_weight(r, device) for device in bad) / len(last) for r in rounds),
    }


def _weight(result: Mapping[str, Any], device: str) -> float:
    return float(result["devices"].get(device, {}).get("weight", 0))


def mean(rows: Sequence[Row], key: str) -> float | None:
    """Over seeds; None where no run has it."""
    found = [row[key] for row in rows if row.get(key) is not None]
    return fmean(found) if found else None


def table(rows: Sequence[Row]) -> list[Row]:
    """Means over seeds, each beside its baselines."""
    by: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        by.setdefault(tuple(row[name] for name in CELL), []).append(row)
    found = []
    for cell, mine in by.items():
        line = {**dict(zip(CELL, cell, strict=True)), "seeds": len(mine)}
        line |= {key: mean(mine, key) for key in NUMBERS}
        line["errors"] = [row["error"] for row in mine if "error" in row]
        seeds = {row["seed"] for row in mine}  # baselines of the same ones
        same = {base: [row for row in by.get((*cell[:-1], base), []) if row["seed"] in seeds] for base in BASES}
        bases = [mean(same[base], "deployed") for base in BASES]
        told = [base for base in bases if base is not None]
        line["below"] = max(told) - line["deployed"] if told and line["deployed"] is not None else None
        fedavg = mean(same["fedavg"], "cpu")
        line["times"] = line["cpu"] / fedavg if fedavg and line["cpu"] is not None else None
        if line["recipe"] == "local":
            line["below"] = None
        found.append(line)
    return found


def markdown(lines: Sequence[Row]) -> str:
    """One table a dataset, alpha and attack."""
    text = []
    for scene in dict.fromkeys(_scene(line) for line in lines):
        text += [f"\n**{scene}**\n"]
        mine = [line for line in lines if _scene(line) == scene]
        attacked = any(line["attack"] for line in mine)
        columns = {key: head for key, head in NUMBERS.items() if attacked or key != "attackers"}
        heads = ["recipe", "seeds", *columns.values(), ""]
        text += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for line in mine:
            name = f"`{line['recipe']}`" + (f" ({line['prototypes']})" if line["prototypes"] else "")
            numbers = [_number(line[key]) for key in columns]
            text.append(f"| {' | '.join([name, str(line['seeds']), *numbers, _mark(line)])} |")
    return "\n".join(text)


def _scene(line: Row) -> str:
    scene = f"{line['dataset']}, alpha {line['alpha']:g}, {line['devices']} devices"
    return f"{scene}, {line['attack']}" if line["attack"] else scene


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _mark(line: Row) -> str:
    if line["errors"]:
        return str(line["errors"][0])
    return f"{line['below']:.1f} below" if (line["below"] or 0) > LEAST else ""


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="all, unless some are named")
    parser.add_argument("--keep", type=Path, help="file that has a line for every run")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--alphas", nargs="+", type=float, default=ALPHAS)
    parser.add_argument("--devices", type=int, default=12)
    parser.add_argument("--attacks", nargs="+", default=[""], metavar="ATTACK", help="such as malicious:4")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2, help="simulations side by side")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="fewer are enough for the seconds of a round")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    add_quick(parser)
    asked = parser.parse_args()
    use_shared_data()
    more = ["--rounds", str(asked.rounds), "--score-every", str(asked.rounds)]
    if asked.quick:
        asked.recipes, asked.datasets, asked.alphas, asked.seeds, asked.devices = ["fedavg"], ["digits"], [1.0], [0], 3
        more = ["--rounds", "1", "--score-every", "1", "--local-steps", "2"]
    unknown = set(asked.recipes) - RECIPES.keys()
    if unknown:
        parser.error(f"no such recipe: {' '.join(sorted(unknown))}")
    kept = asked.keep.read_text().splitlines() if asked.keep and asked.keep.exists() else []
    rows: list[Row] = [json.loads(line) for line in kept]
    done = {_key(row) for row in rows}
    wanted = list(cells(asked))
    left = [(cell, seed) for seed in asked.seeds for cell in wanted if _key({**cell, "seed": seed}) not in done]
    with ThreadPoolExecutor(asked.jobs) as threads:
        for row in threads.map(lambda one: run(*one, more), left):
            rows.append(row)
            if asked.keep:
                with asked.keep.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(json.dumps(row), file=sys.stderr, flush=True)
    lines = table(rows)
    print(markdown(lines))
    if asked.json:
        print(json.dumps({"rows": lines}))


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in (*CELL, "seed"))


if __name__ == "__main__":
    main()
