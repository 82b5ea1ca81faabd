"""Sends a 1.2 MB fp32 array to all agents and back, without training: seconds per round and memory, 10 and 30 agents.

    python benchmarks/round_trip.py [--json] [--quick] [--agents 10,30] [--rounds 8] [--peer] [--peers-bench FOLDER]

A real aggregator, Mosquitto, and real agent processes on loopback. Every round: publish, fetch, echo, upload, check,
fsync and journal, answer, fuse (FedAvg), publish. The echo is created by a child process, as in training, and in a
second run by the agent itself (`inline`): the difference is the start of a Python process per agent and round. A round
is timed from its opening to the opening of the next, in the aggregator's journal; the first is not counted.

`--peer` then runs Flower's deployment with the same array and as many nodes, if a harness with `deploy_flwr.py` is
given (by `--peers-bench` or EDGESTILL_PEERS_BENCH) and its environment is installed; otherwise earlier figures are
printed. The first of its rounds (`--peer-rounds`) is not counted either. Its 30 nodes need minutes and 12.5 GB.
`--quick`: two agents, four rounds, no peer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _fleet import device_names, write_agent, write_fleet
from _machine import Mosquitto, memory_mb, peak_mb
from _quick import add_quick

from aggregator.storage.journal import Journal
from core.errors import ConfigError
from fleet.mqtt.processes import Processes
from wire.keys import generate_key

PROTOTYPE, INPUTS = "mlp:fp32", 1265  # 300,162 floats
BENCHMARKS = Path(__file__).resolve().parent
RUN_S = 240.0  # at most
PEER_S = 900.0  # at most, its start included
EARLIER = {  # seconds per round, GB of all processes; Flower 1.42 on two cores
    "superlink": {10: (13.0, 4.4), 30: (37.0, 12.5)},
    "legacy": {10: (0.08, None), 30: (0.23, None)},
}


@dataclass(frozen=True, slots=True)
class Result:
    agents: int
    echo: str  # child | inline
    seconds: float  # per round, median
    best: float
    answered_s: float  # of it, until the last update was durable
    fused_s: float  # of it, from there to the commit of the fused model
    child_s: float  # from the start of a child process to its echo, median
    server_mb: float  # peak of the aggregator; the worker that fuses is a process of its own
    worker_mb: float
    agent_mb: float  # peak of the largest agent
    agent_idle_mb: float  # before the first round, median


class Run:
    """One fleet from start to stop."""

    def __init__(self, folder: Path, port: int, agents: int, rounds: int, echo: str) -> None:
        self.folder, self.rounds, self.echo = folder, rounds, echo
        self.processes = Processes(folder)
        self.journal = folder / "aggregator" / "state" / "journal.db"
        self.names = device_names(agents)
        keys = {name: generate_key() for name in self.names}
        home = folder / "aggregator"
        shape = str(INPUTS)
        own = write_fleet(home, port=port, prototype=PROTOTYPE, shape=shape, rounds=rounds, devices=keys)
        np.savez(folder / "data.npz", x=np.zeros((10, INPUTS), np.float32), y=np.arange(10))
        for name, key in keys.items():
            write_agent(folder / name, port=port, prototype=PROTOTYPE, key=key, aggregator=own.public_key())

    def start(self) -> list[float]:
        """Start all processes; returns the memory of the idle agents, before the first round."""
        for name in self.names[:-1]:
            self._start_agent(name)
        self._wait(lambda: all(self._says(name, "connected to") for name in self.names[:-1]))
        idle = [memory_mb(self._pid(name)) for name in self.names[:-1]]
        self.processes.start("aggregator", ["aggregator", "serve", "--config", "aggregator/fleet.toml"])
        self._start_agent(self.names[-1])
        return idle

    def finish(self) -> list[Any]:
        """Wait for the last round; all rounds in the journal, oldest first."""
        self._wait(lambda: len(self._closed()) == self.rounds)
        return self._closed()

    def received(self, number: int) -> list[Any]:
        """The updates of a round."""
        journal = Journal(self.journal, read_only=True)
        try:
            return journal.updates(number)
        finally:
            journal.close()

    def memory(self) -> tuple[float, float, float]:
        """Peaks: aggregator, its worker, the largest agent."""
        server = self._pid("aggregator")
        workers = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        agents = [peak_mb(self._pid(name)) for name in self.names]
        return peak_mb(server), max((peak_mb(int(pid)) for pid in workers), default=0.0), max(agents)

    def _start_agent(self, name: str) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BENCHMARKS.parent), env.get("PYTHONPATH")]))
        command = [sys.executable, str(BENCHMARKS / "_echo_agent.py"), f"{name}/agent.toml", self.echo]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes.running[name] = subprocess.Popen(
                command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _closed(self) -> list[Any]:
        try:
            journal = Journal(self.journal, read_only=True)
        except ConfigError:  # the aggregator has not created it yet
            return []
        try:
            return [row for row in reversed(journal.rounds()) if row.phase == "closed"]
        finally:
            journal.close()

    def _says(self, name: str, words: str) -> bool:
        return words in (self.folder / f"{name}.log").read_text(errors="replace")

    def _pid(self, name: str) -> int:
        return self.processes.running[name].pid

    def _wait(self, condition: Any) -> None:
        until = time.monotonic() + RUN_S
        while not condition():
            self.processes.check()
            if time.monotonic() > until:
                raise SystemExit(f"{len(self.names)} agents: not done within {RUN_S:g} s")
            time.sleep(0.2)


def measure(agents: int, rounds: int, echo: str) -> Result:
    """All rounds of one fleet."""
    with tempfile.TemporaryDirectory(prefix="edgestill-trip-") as name, Mosquitto(Path(name)) as broker:
        run = Run(Path(name), broker.port, agents, rounds, echo)
        try:
            idle = run.start()
            rows = run.finish()
            server, worker, agent = run.memory()
        finally:
            run.processes.stop()
        whole = [b.opened - a.opened for a, b in pairwise(rows[1:])]
        answered, fused, child = [], [], []
        for row in rows[1:-1]:
            updates = run.received(row.number)
            last = max(update.received for update in updates)
            answered.append(last - row.opened)
            fused.append(row.closed - last)
            child += [update.metrics["child_s"] for update in updates]
    return Result(
        agents=agents,
        echo=echo,
        seconds=round(statistics.median(whole), 3),
        best=round(min(whole), 3),
        answered_s=round(statistics.median(answered), 3),
        fused_s=round(statistics.median(fused), 3),
        child_s=round(statistics.median(child), 3) if echo == "child" else 0.0,
        server_mb=round(server, 1),
        worker_mb=round(worker, 1),
        agent_mb=round(agent, 1),
        agent_idle_mb=round(statistics.median(idle), 1),
    )


def peer(harness: Path | None, agents: int, mode: str, rounds: int) -> dict[str, Any]:
    """Flower with as many nodes, or earlier figures."""
    found: dict[str, Any] = {"system": f"flower {mode}", "agents": agents}
    lab = Path(os.environ.get("PEERBENCH_LAB", "~/.cache/peerbench")).expanduser()
    if harness is None or not (harness / "deploy_flwr.py").is_file() or not (lab / "venv-flwr").is_dir():
        seconds, gigabytes = EARLIER[mode].get(agents, (None, None))
        return found | {"seconds": seconds, "gb": gigabytes, "measured": "earlier"}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        command = [sys.executable, "deploy_flwr.py", "--mode", mode, "--nodes", str(agents), "--rounds", str(rounds)]
        command += ["--timeout", str(PEER_S), "--results", str(results)]
        done = subprocess.run(command, cwd=harness, check=False, capture_output=True, text=True)
        if done.returncode or not results.exists():
            raise SystemExit(f"flower {mode} with {agents} nodes: {(done.stderr or done.stdout)[-500:]}")
        facts = json.loads(results.read_text().splitlines()[-1])
    if "error" in facts:
        raise SystemExit(f"flower {mode} with {agents} nodes: {facts['error']}; its logs are in {facts['logs']}")
    each = {kind: values["rss_mb"] for kind, values in facts["per_process"].items() if kind != "other"}
    memory = {"gb": round(facts["peak_rss_mb"] / 1024, 2), "process_mb": each}
    return found | {"seconds": facts["mean"], "rounds_s": facts["round_s"], "measured": "in this run", **memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--agents", default="10,30", help="numbers of agents")
    parser.add_argument("--rounds", type=int, default=8, help="rounds, 4 or more")
    parser.add_argument("--peer", action="store_true", help="run Flower too")
    parser.add_argument("--peer-rounds", type=int, default=2, help="of Flower's, 2 or more")
    parser.add_argument("--peers-bench", type=Path, default=os.environ.get("EDGESTILL_PEERS_BENCH"), metavar="FOLDER")
    add_quick(parser)
    args = parser.parse_args()
    if args.quick:
        args.agents, args.rounds, args.peer = "2", 4, False
    counts = [int(n) for n in args.agents.split(",")]
    results = [measure(n, max(4, args.rounds), echo) for n in counts for echo in ("child", "inline")]
    print(
        f"{'agents':>6s} {'echo':7s} {'s/round':>8s} {'best':>6s} {'answered':>9s} {'fused':>6s} {'child':>6s}", end=""
    )
    print(f" {'server MB':>10s} {'worker MB':>10s} {'agent MB':>9s} {'idle':>6s}")
    for r in results:
        print(
            f"{r.agents:6d} {r.echo:7s} {r.seconds:8.2f} {r.best:6.2f} {r.answered_s:9.2f} {r.fused_s:6.2f} "
            f"{r.child_s:6.2f} {r.server_mb:10.1f} {r.worker_mb:10.1f} {r.agent_mb:9.1f} {r.agent_idle_mb:6.1f}",
            flush=True,
        )
    peers = []
    harness = Path(args.peers_bench) if args.peers_bench else None
    for mode, n in [(mode, n) for mode in EARLIER for n in counts] if args.peer else []:
        peers.append(p := peer(harness, n, mode, max(2, args.peer_rounds)))
        seconds = "-" if p["seconds"] is None else f"{p['seconds']:.2f} s/round"
        memory = "" if p["gb"] is None else f", {p['gb']:.1f} GB in all"
        print(f"{p['system']}, {n} nodes: {seconds}{memory} (measured {p['measured']})", flush=True)
    if args.json:
        facts = {f"seconds_{r.agents}": r.seconds for r in results if r.echo == "child"}
        facts |= {f"seconds_{r.agents}_inline": r.seconds for r in results if r.echo == "inline"}
        facts["agent_idle_mb"] = max(r.agent_idle_mb for r in results)
        print(json.dumps({**facts, "rows": [asdict(r) for r in results], "peers": peers}))


if __name__ == "__main__":
    main()
