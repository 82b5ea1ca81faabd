"""A thousand rounds with two agents: what stays in memory and on the disk of the aggregator and of the boards.

    python benchmarks/many_rounds.py [--json] [--quick] [--rounds 1000] [--train] [--plot FILE.png] [--keep FILE.json]

Two real agent processes, a real aggregator with its worker, a Mosquitto. The agents send the published model back
instead of training it (`_echo_agent.py`), so that a round takes a fraction of a second; with `--train` each has a
training child in light mode. The policies are those of a fleet that runs for weeks, shrunk to the run: the journal has
the last fifth of the rounds (`history_rounds`), of the models the last 5, every tenth of the rounds and the best stay,
an agent caches 2 MB of models. Measured 200 times: resident memory of service, worker and one agent; bytes of the
aggregator's state folder by part, and of one agent's. `--keep` writes the rows as they come, and if the file exists,
prints and draws from it instead; `--quick`: a few rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from _fleet import device_names, write_agent, write_fleet
from _machine import Mosquitto, memory_mb
from _quick import add_quick

from aggregator.storage.journal import Journal
from core.errors import ConfigError
from core.toml_writer import toml_text
from fleet.mqtt.processes import Processes
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from wire.keys import generate_key

PROTOTYPE, SHAPE, CLASSES, LATENT = "mlp:fp32", (1, 8, 8), 10, 32
DEVICES = 2
BENCHMARKS = Path(__file__).resolve().parent
STUCK_S = 600.0  # without a round
FLAT = 0.2  # of the rounds at the start are not compared: caches fill, the journal has not reached its bound


@dataclass(frozen=True, slots=True)
class Row:
    """What is there after a round."""

    round: int
    service_mb: float
    worker_mb: float
    agent_mb: float
    models_kb: float  # blobs
    journal_kb: float
    rest_kb: float  # of the aggregator's state folder
    agent_kb: float  # state folder of one agent
    logs_kb: float  # all that was written to stderr, kept or not by whoever reads it


def prepare(folder: Path, port: int, rounds: int, *, train: bool) -> None:
    """Configurations, samples, and the graph of light agents."""
    keys = {name: generate_key() for name in device_names(DEVICES)}
    shape = "x".join(map(str, SHAPE))
    aggregator = write_fleet(folder / "fleet", port=port, prototype=PROTOTYPE, shape=shape, rounds=rounds, devices=keys)
    path = folder / "fleet" / "fleet.toml"
    policy = toml_text({"models": {"last": 5, "every": max(rounds // 10, 2)}, "log": {"level": "warning"}})
    history = f"[state]\nhistory_rounds = {max(rounds // 5, 10)}\n"
    path.write_text(f"{path.read_text().replace('[state]', history.rstrip(), 1)}\n{policy}")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, *SHAPE)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=np.arange(40) % CLASSES)
    for name, key in keys.items():
        home = folder / name
        write_agent(home, port=port, prototype=PROTOTYPE, key=key, aggregator=aggregator.public_key())
        path = home / "agent.toml"
        text = path.read_text().replace("[agent]", "[agent]\ncache_mb = 2")
        if train:
            light = '[model]\ngraph = "../graph.onnx"'
            text = text.replace("[model]", light) + '\n[train]\nmode = "light"\nnice = 0\n'
        path.write_text(text)
    if train:
        arch, precision = parse_prototype(PROTOTYPE)
        spec = PrototypeSpec(arch, precision, SHAPE, CLASSES, LATENT)
        export_onnx(
            build(spec, generator=torch.Generator().manual_seed(0)), torch.zeros(2, *SHAPE), folder / "graph.onnx"
        )


def run(folder: Path, rounds: int, *, train: bool, keep: Path | None) -> list[Row]:
    """All rounds; 200 rows, kept as they come."""
    processes, every = Processes(folder), max(rounds // 200, 1)
    processes.start("service", ["aggregator", "serve", "--config", "fleet/fleet.toml"])
    for name in device_names(DEVICES):
        if train:
            processes.start(name, ["agent", "run", "--config", f"{name}/agent.toml"])
        else:
            processes.running[name] = _echo_agent(folder, name)
    rows: list[Row] = []
    try:
        for number in range(every, rounds + 1, every):
            _wait(folder, processes, number)
            rows.append(_measure(folder, processes))
            if keep:
                keep.write_text(json.dumps([asdict(row) for row in rows]))
            if number % max(rounds // 10, 1) == 0:
                print(f"{number:6,d} rounds", flush=True)
    finally:
        processes.stop()
    return rows


def _echo_agent(folder: Path, name: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [str(BENCHMARKS.parent), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(BENCHMARKS / "_echo_agent.py"), f"{name}/agent.toml", "inline"]
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=log, stderr=log)


def _completed(folder: Path) -> int:
    try:
        journal = Journal(folder / "fleet/state/journal.db", read_only=True)
    except ConfigError:  # not there yet
        return 0
    try:
        return journal.completed()
    finally:
        journal.close()


def _wait(folder: Path, processes: Processes, number: int) -> None:
    until = time.monotonic() + STUCK_S
    while _completed(folder) < number:
        processes.check()
        if time.monotonic() > until:
            raise SystemExit(f"no round {number} within {STUCK_S:.0f} s: {processes.last_line('service')}")
        time.sleep(0.1)


def _measure(folder: Path, processes: Processes) -> Row:
    service = processes.running["service"].pid
    children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
    agent = device_names(DEVICES)[0]
    state = folder / "fleet/state"
    blobs, journal = _size(state / "blobs"), sum(_size(path) for path in state.glob("journal.db*"))
    return Row(
        round=_completed(folder),
        service_mb=round(memory_mb(service), 2),
        worker_mb=round(sum(memory_mb(int(pid)) for pid in children), 2),
        agent_mb=round(memory_mb(processes.running[agent].pid), 2),
        models_kb=blobs,
        journal_kb=journal,
        rest_kb=round(_size(state) - blobs - journal, 1),
        agent_kb=_size(folder / agent / "state"),
        logs_kb=round(sum(_size(path) for path in folder.glob("*.log")), 1),
    )


def _size(path: Path) -> float:
    """Kilobytes of a file, or of all files below a folder; files and folders may vanish meanwhile."""
    files = [path] if path.is_file() else [Path(folder) / name for folder, _, names in os.walk(path) for name in names]
    total = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return round(total / 1e3, 1)


def growth(rows: Sequence[Row], name: str) -> float:
    """From the median of the fifth of the rounds after the first fifth to that of the last one."""
    values = [getattr(row, name) for row in rows]
    fifth = max(round(FLAT * len(values)), 1)
    return round(float(np.median(values[-fifth:]) - np.median(values[fifth : 2 * fifth])), 2)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Two panels: memory and disk by round."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    memory, disk = figure.subplots(1, 2)
    rounds = [row.round for row in rows]
    for axes, unit, names in (
        (memory, "MB", {"worker": "worker_mb", "service": "service_mb", "an agent": "agent_mb"}),
        (disk, "MB", {"models": "models_kb", "journal": "journal_kb", "the rest": "rest_kb", "an agent": "agent_kb"}),
    ):
        for label, name in names.items():
            scale = 1e-3 if name.endswith("kb") else 1.0
            axes.plot(rounds, [scale * getattr(row, name) for row in rows], label=label, linewidth=1.2)
        axes.set(xlabel="round", ylabel=unit, ylim=(0, None), title="memory" if axes is memory else "disk")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--train", action="store_true", help="a training child a round, without torch")
    parser.add_argument("--plot", type=Path, help="a PNG of memory and disk by round")
    parser.add_argument("--keep", type=Path, help="rows as JSON; if the file exists, nothing is measured")
    add_quick(parser)
    args = parser.parse_args()
    rounds = 5 if args.quick else args.rounds
    if args.keep and args.keep.exists():
        rows = [Row(**row) for row in json.loads(args.keep.read_text())]
    else:
        with tempfile.TemporaryDirectory(prefix="edgestill-rounds-") as name, Mosquitto(Path(name)) as broker:
            prepare(Path(name), broker.port, rounds, train=args.train)
            rows = run(Path(name), rounds, train=args.train, keep=args.keep)
    if args.plot:
        plot(rows, args.plot)
    names = [name for name in Row.__dataclass_fields__ if name != "round"]
    print(" ".join(f"{name:>11s}" for name in ("round", *names)))
    for row in rows[:: max(len(rows) // 10, 1)] if len(rows) < 10 else rows[len(rows) // 10 - 1 :: len(rows) // 10]:
        print(" ".join(f"{value:11,.1f}" for value in asdict(row).values()))
    grown = {name: growth(rows, name) for name in names}
    print("growth after the first fifth: " + ", ".join(f"{name} {value:+,.1f}" for name, value in grown.items()))
    if args.json:
        print(json.dumps({"growth": grown, "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
