"""The simulated fleet against its peers: the same workload on the same machine in one run, best of three, interleaved.

    python benchmarks/simulate.py [--json] [--quick] [--cases mlp10,cnn10] [--systems naive-t1,pfl-2w] [--repeats 3]
                                  [--harness DIR] [--peers DIR]

MNIST, 100 devices of 600 samples, IID, one local epoch, SGD 0.05, batch 32, FedAvg, scored at the end:

    mlp10 mlp30 mlp100   perceptron 784-200-200-10, 10, 30, 100 devices a round, 20 rounds
    cnn10                McMahan's CNN, 10 devices a round, 5 rounds
    everything           three prototypes, one of them 1-bit, 30 and 90 devices a round, FedDF with 2,000 unlabeled
                         samples and 100 steps of 128, against FedAvg on the same fleet: the added cost of a round

`--harness` is the folder of the peers' scripts (run.py, common.py), `--peers` that of their environments (venv-pfl,
venv-flwr, venv-fedlab); the harness's README explains how to create them. A peer without one is skipped with a message.
About 45 minutes with all peers; use an idle machine. Flower's Ray (flwr-2a) always listens on the machine's network
address: exclude it by --systems, or run the benchmark in its own network namespace
(unshare -rn sh -c 'ip link set lo up; exec python benchmarks/simulate.py').

`--quick`: `everything` alone, three devices with digits; no harness, no peers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _data import use_shared_data
from _everything import FULL, QUICK, everything
from _quick import add_quick

ROOT = Path(__file__).resolve().parents[1]
CASES = ("mlp10", "mlp30", "mlp100", "cnn10", "everything")
PEERS = {"pfl-t1": "pfl", "pfl-2w": "pfl", "fedlab-t1": "fedlab", "flwr-2a": "flwr"}  # system: its environment
OURS, PLAIN = "edgestill", ("naive-t1", "naive-t2")
Row = dict[str, Any]


def main() -> None:
    """Run, print a table and, with --json, one JSON object as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--systems", default=",".join((*PLAIN, *PEERS)))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--harness", type=Path, default=ROOT.parent / "shared" / "peers-bench")
    parser.add_argument("--peers", type=Path, default=Path.home() / ".cache" / "peerbench")
    add_quick(parser)
    args = parser.parse_args()
    use_shared_data()
    if args.quick:
        args.cases, args.repeats = "everything", 1
    cases = args.cases.split(",")
    if unknown := set(cases) - set(CASES):
        raise SystemExit(f"unknown case {unknown.pop()!r}; known: {' '.join(CASES)}")
    if unknown := set(args.systems.split(",")) - {*PLAIN, *PEERS}:
        raise SystemExit(f"unknown system {unknown.pop()!r}; known: {' '.join((*PLAIN, *PEERS))}")
    beside = [case for case in cases if case != "everything"]
    facts: dict[str, Any] = {}
    if beside:
        facts = compare(race(args.harness, args.peers, args.systems.split(","), beside, args.repeats))
    if "everything" in cases:
        facts |= everything(args.repeats, QUICK if args.quick else FULL)
    if args.json:
        print(json.dumps(facts))


def race(harness: Path, peers: Path, wanted: Sequence[str], cases: Sequence[str], repeats: int) -> list[Row]:
    """The harness's measurements of every system in every case."""
    if not (harness / "run.py").is_file():
        raise SystemExit(f"{harness}: no run.py; give the folder of the peers' scripts by --harness")
    there = {name for name in set(PEERS.values()) if (peers / f"venv-{name}" / "bin" / "python").exists()}
    for name in sorted(set(PEERS.values()) - there):
        print(f"!! {peers / f'venv-{name}'}: no such environment; {name} is NOT compared", file=sys.stderr)
    systems = [system for system in wanted if system in PLAIN or PEERS[system] in there]
    with tempfile.TemporaryDirectory(prefix="edgestill-peers-") as folder:
        lab = Path(folder)
        for name in there:
            (lab / f"venv-{name}").symlink_to(peers / f"venv-{name}")
        if "pfl" not in there:  # the plain loop and the harness run in it
            _stand_in(lab / "venv-pfl" / "bin" / "python")
        ours = f"{sys.executable} {Path(__file__).with_name('_peer_edgestill.py')}{_prepared(lab)}"
        results = lab / "results.jsonl"
        command = [sys.executable, "run.py", "--variants", ",".join(cases), "--systems", ",".join(systems)]
        command += ["--repeats", str(repeats), "--results", str(results)]
        command += ["--add", f"{OURS}={ours}"]
        env = {**os.environ, "PEERBENCH_LAB": str(lab), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(command, cwd=harness, env=env, check=True, stdout=sys.stderr)
        return [json.loads(line) for line in results.read_text().splitlines()]


def _prepared(lab: Path) -> str:
    """Arguments of our script, prepared like the peers' environments and the harness's cache before the race.

    That is bytecode, which pip compiles for theirs and our Makefile leaves to the first import, and MNIST in mapped
    files: theirs in float32, ours in bytes, as edgestill stores images.
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    code = """
import sys, numpy
import fleet.simulation.simulation, fleet.engines.processes
from fleet.data import load
mnist = load("mnist")
for name in ("x_train", "y_train", "x_test", "y_test"):
    numpy.save(f"{sys.argv[1]}/{name}.npy", getattr(mnist, name))
"""
    done = subprocess.run([sys.executable, "-c", code, str(lab)], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        print("!! MNIST was not found: edgestill uses the harness's float32 data", file=sys.stderr)
        return ""
    return f" --images {lab}"


def _stand_in(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    path.chmod(0o755)


def compare(rows: Sequence[Row]) -> dict[str, Any]:
    """Ratios of the best repeats; above 1, edgestill is faster."""
    failed = sorted({f"{row['system']} in {row['variant']}" for row in rows if row["rc"] != 0})
    for what in failed:
        print(f"!! {what} ended with an error and is NOT compared", file=sys.stderr)
    rows = [row for row in rows if row["rc"] == 0]
    cases = list(dict.fromkeys(row["variant"] for row in rows if row["system"] == OURS))
    facts: dict[str, Any] = {"ratios_to_best_peer": {}, "start_to_end_ratios": {}, "peak_rss_mb": {}, "accuracy": {}}
    facts |= {"rounds_s": {}, "rounds_cpu_s": {}, "total_s": {}, "peak_pss_mb": {}, "failed": failed}
    for case in cases:
        mine = [row for row in rows if row["variant"] == case]
        best = {key: _best(mine, key) for key in ("rounds_s", "rounds_cpu_s", "total_s")}
        others = {name: s for name, s in best["rounds_s"].items() if name != OURS}
        facts["ratios_to_best_peer"][case] = round(min(others.values(), default=0.0) / best["rounds_s"][OURS], 2)
        ours = best["total_s"][OURS]
        facts["start_to_end_ratios"][case] = {n: round(s / ours, 2) for n, s in best["total_s"].items() if n != OURS}
        facts["accuracy"][case] = {row["system"]: row["accuracy"] for row in mine}
        for key in ("rounds_s", "rounds_cpu_s", "total_s"):
            facts[key][case] = best[key]
        for key in ("peak_rss_mb", "peak_pss_mb"):
            facts[key][case] = {row["system"]: row[key] for row in mine}
        _print(case, facts)
    return facts


def _best(rows: Sequence[Row], key: str) -> dict[str, float]:
    systems = dict.fromkeys(row["system"] for row in rows)
    return {name: min(row[key] for row in rows if row["system"] == name) for name in systems}


def _print(case: str, facts: dict[str, Any]) -> None:
    columns = ("rounds_s", "rounds_cpu_s", "total_s", "peak_rss_mb", "peak_pss_mb", "accuracy")
    print(f"\n{case:12s}" + "".join(f"{name:>14s}" for name in columns))
    for system in facts["rounds_s"][case]:
        print(f"{system:12s}" + "".join(f"{facts[name][case][system]:14.4g}" for name in columns))
    print(f"rounds {facts['ratios_to_best_peer'][case]:.2f} times as fast as the best peer")


if __name__ == "__main__":
    main()
