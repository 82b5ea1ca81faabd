"""Rounds of 20 honest devices, undisturbed and during floods by one and by five devices, over a real broker.

    python benchmarks/flood.py [--json] [--quick] [--broker embedded] [--cases "tiny chunks,garbage"]

A real aggregator process; honest devices are light ones (`_load_devices.py`) that answer each job at once with a signed
update of 100 KB, so a round takes the time of the aggregator, its worker and the broker. Flooding devices are known to
the fleet, have valid keys, and send from a process of the lowest priority, each 1,000 messages or 4 MB per second by
default (0: as fast as possible). Every case uses new devices, whose budgets are full.

`ratio`: the median time from one round's opening to the next, relative to that of the undisturbed rounds before and
after it; `worst`: the longest round relative to the same. `service` and `broker`: CPU seconds per round. On a machine
with two cores broker and flooders also take CPU time from the service; these columns separate that from the service's
own work. `dropped`: messages that the service dropped unread, of those `sent`. `--quick`: two honest devices and one
flooder, the first case only, one round per phase.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from _fleet import device_names, write_fleet
from _flooder import CASES
from _load_devices import LightDevice, fetch_tensors, until
from _machine import Mosquitto, cpu_seconds
from _quick import add_quick

from aggregator.storage.journal import Journal
from fleet.mqtt.processes import Processes
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey, generate_key
from wire.messages import Accepted, Job, Rejected

PROTOTYPE, SHAPE = "cnn:fp32", "1x28x28"
HONEST, COUNTS = 20, (1, 5)
ROUNDS = 5  # minimum of a phase, unless rounds take too long
LONGEST_S = 30.0  # of a flood
ALWAYS = 10**6  # rounds: the aggregator is stopped earlier


class HonestDevice(LightDevice):
    """A light device that answers one round after another."""

    tensors = b""
    last = 0
    lost = 0  # rounds that ended without its update

    def _heard(self, topic: str, payload: bytes) -> None:
        assert self._mail is not None
        if topic.endswith("/ack"):
            self._settled(self._mail.read_ack(payload).ack)
        elif topic.endswith("/job"):
            instruction = self._mail.read_job(payload).instruction
            if isinstance(instruction, Job) and instruction.round > self.last and self.tensors:
                self.last = instruction.round
                self.lost += self.asked_at is not None and self.accepted_at is None
                self.prepare(self.tensors, instruction.model, instruction.round)
                self.asked_at, self.accepted_at = time.monotonic(), None
                assert self._upload is not None
                self._send(self._upload.connected(self.asked_at))
            elif instruction is not None and not isinstance(instruction, Job):
                self.offered = instruction

    def _settled(self, ack: object) -> None:
        if isinstance(ack, Accepted | Rejected):
            if self._upload is not None and ack.transfer == self._upload.spooled.transfer:
                self.lost += isinstance(ack, Rejected)
                self.accepted_at = time.monotonic()
        elif self._upload is not None and getattr(ack, "transfer", "") == self._upload.spooled.transfer:
            self._answered(ack, time.monotonic())  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Phase:
    """Some rounds one after another."""

    seconds: list[float]  # from the opening of each to that of the next
    service_s: float  # CPU time per round
    broker_s: float
    messages: int = 0  # of the flood
    mbytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One case against the undisturbed rounds around it."""

    case: str
    flooders: int
    calm_s: float
    flooded_s: float
    ratio: float
    worst: float
    rounds: int
    service_s: float
    service_calm_s: float
    broker_s: float
    messages_s: float  # that the flooders sent
    mbytes_s: float
    dropped: int
    lost: int  # updates of honest devices whose round ended before they got an answer


class Bench:
    """A fleet with an unlimited number of rounds."""

    def __init__(
        self, home: Path, port: int, service: int, broker: int, devices: list[HonestDevice], each: int
    ) -> None:
        self.home, self.port, self.pids, self.devices = home, port, (service, broker), devices
        self._each = each  # minimum rounds of a phase

    def opened(self) -> dict[int, float]:
        """Opening times of the rounds."""
        journal = Journal(self.home / "state" / "journal.db", read_only=True)
        try:
            return {0: 0.0} | {row.number: row.opened for row in journal.rounds(200)}
        finally:
            journal.close()

    async def rounds(self, least_s: float, *, at_most_s: float = 3 * LONGEST_S) -> Phase:
        """Wait for a minimum of rounds and seconds, from the next opening on; fewer if they take too long."""
        first = max(self.opened()) + 1
        started = time.monotonic()
        end = started + at_most_s
        await self._reach(first, end)
        cpu, began = [cpu_seconds(pid) for pid in self.pids], time.monotonic()
        await self._reach(first + self._each, end)
        while time.monotonic() < min(began + least_s, end):
            await self._reach(max(self.opened()) + 1, end)
        opened = {number: when for number, when in self.opened().items() if number >= first}
        spent = [cpu_seconds(pid) - before for pid, before in zip(self.pids, cpu, strict=True)]
        seconds = [opened[n + 1] - opened[n] for n in sorted(opened)[:-1]] or [time.monotonic() - started]
        return Phase(seconds, *(each / len(seconds) for each in spent))

    async def _reach(self, number: int, end: float) -> None:
        while max(self.opened()) < number and time.monotonic() < end:
            for device in self.devices:
                device.tick()
            await asyncio.sleep(0.02)

    def dropped(self, names: list[str]) -> int:
        """The messages of these devices that the service reports as dropped."""
        try:
            limited = json.loads((self.home / "state" / "status.json").read_text()).get("limited", {})
        except (OSError, ValueError):
            return 0
        return sum(limited.get(name, 0) for name in names)


async def flooded(
    bench: Bench, case: str, keys: dict[str, Ed25519PrivateKey], rates: tuple[float, float], least_s: float
) -> Phase:
    """Rounds during a flood."""
    order = {
        "port": bench.port,
        "case": case,
        "keys": {name: key.private_bytes_raw().hex() for name, key in keys.items()},
        "messages": rates[0],
        "bytes": 1e6 * rates[1],
        "seconds": 2 * LONGEST_S,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("_flooder.py")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        assert await asyncio.wait_for(process.stdout.readline(), 180) == b"ready\n"
        process.stdin.write(b"go\n")
        started = time.monotonic()
        phase = await bench.rounds(least_s, at_most_s=LONGEST_S)
        process.stdin.close()
        sent = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        seconds = time.monotonic() - started
        await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    return Phase(
        phase.seconds,
        phase.service_s,
        phase.broker_s,
        messages=round(sent["messages"] / seconds),
        mbytes=sent["bytes"] / 1e6 / seconds,
    )


async def measure(
    bench: Bench, flooders: dict[str, Ed25519PrivateKey], cases: list[str], args: argparse.Namespace
) -> list[Row]:
    """Undisturbed and flooded rounds in turn."""
    rows, names = [], iter(flooders)
    calm = await bench.rounds(args.seconds / 2)
    for case in cases:
        for count in args.counts:
            mine = [next(names) for _ in range(count)]
            keys = {name: flooders[name] for name in mine}
            lost = sum(device.lost for device in bench.devices)
            beside = await flooded(bench, case, keys, (args.messages, args.mbytes), args.seconds)
            await asyncio.sleep(1.2)  # until the service has written its counters
            dropped = bench.dropped(mine)
            lost = sum(device.lost for device in bench.devices) - lost
            after = await bench.rounds(args.seconds / 2)
            rows.append(_row(case, count, calm, beside, after, dropped, lost))
            print(_line(rows[-1]), flush=True)
            calm = after
    return rows


def _row(case: str, count: int, before: Phase, beside: Phase, after: Phase, dropped: int, lost: int) -> Row:
    calm = statistics.median(before.seconds + after.seconds)
    return Row(
        case=case,
        flooders=count,
        calm_s=round(calm, 3),
        flooded_s=round(statistics.median(beside.seconds), 3),
        ratio=round(statistics.median(beside.seconds) / calm, 2),
        worst=round(max(beside.seconds) / calm, 2),
        rounds=len(beside.seconds),
        service_s=round(beside.service_s, 3),
        service_calm_s=round((before.service_s + after.service_s) / 2, 3),
        broker_s=round(beside.broker_s, 3),
        messages_s=beside.messages,
        mbytes_s=round(beside.mbytes, 2),
        dropped=dropped,
        lost=lost,
    )


HEAD = (
    f"{'case':16s} {'flooders':>8s} {'calm s':>7s} {'flood s':>7s} {'ratio':>6s} {'worst':>6s} {'service':>8s}"
    f" {'(calm)':>7s} {'broker':>7s} {'sent/s':>7s} {'MB/s':>6s} {'dropped':>8s} {'lost':>5s}"
)


def _line(r: Row) -> str:
    times = f"{r.calm_s:7.2f} {r.flooded_s:7.2f} {r.ratio:6.2f} {r.worst:6.2f}"
    processor = f"{r.service_s:8.3f} {r.service_calm_s:7.3f} {r.broker_s:7.3f}"
    return (
        f"{r.case:16s} {r.flooders:8d} {times} {processor} {r.messages_s:7.0f} {r.mbytes_s:6.1f}"
        f" {r.dropped:8d} {r.lost:5d}"
    )


@contextlib.contextmanager
def _broker(folder: Path, kind: str, processes: Processes) -> Iterator[tuple[int, int]]:
    """Start a broker; its port and process id."""
    if kind == "mosquitto":
        with Mosquitto(folder) as broker:
            yield broker.port, broker.pid
        return
    processes.start("broker", ["broker", "--port", "0", "--json"])
    log, end = folder / "broker.log", time.monotonic() + 30
    while "port" not in (said := log.read_text()) and time.monotonic() < end:
        processes.check()
        time.sleep(0.1)
    yield json.loads(said.splitlines()[0])["port"], processes.running["broker"].pid


async def run(folder: Path, args: argparse.Namespace, cases: list[str], processes: Processes) -> list[Row]:
    """Run all cases on a new broker."""
    with _broker(folder, args.broker, processes) as (port, broker):
        keys = {name: generate_key() for name in device_names(args.honest)}
        flooders = {f"flood-{i:03d}": generate_key() for i in range(len(cases) * sum(args.counts))}
        home = folder / "aggregator"
        own = write_fleet(
            home, port=port, prototype=PROTOTYPE, shape=SHAPE, rounds=ALWAYS, devices=keys, others=flooders
        )
        processes.start("aggregator", ["aggregator", "serve", "--config", "aggregator/fleet.toml"])
        devices = [HonestDevice(name, key, own.public_key(), PROTOTYPE) for name, key in keys.items()]
        try:
            await _gather(devices, port, home, own.public_key(), processes)
            bench = Bench(home, port, processes.running["aggregator"].pid, broker, devices, args.rounds)
            return await measure(bench, flooders, cases, args)
        finally:
            for device in devices:
                device.close()


async def _gather(
    devices: list[HonestDevice], port: int, home: Path, aggregator: Ed25519PublicKey, processes: Processes
) -> None:
    """Connect all devices, fetch the first model, and start the rounds."""
    status = home / "state" / "status.json"

    def listening() -> bool:
        try:
            return bool(json.loads(status.read_text()).get("connected"))
        except (OSError, ValueError):
            return False

    await until(listening, 60, "the aggregator's connection", processes.check)
    for device in devices:
        await device.connect(port)
    await devices[0].announce()
    await until(lambda: devices[0].offered is not None, 60, "an offer", processes.check)
    assert devices[0].offered is not None
    HonestDevice.tensors = await fetch_tensors(port, devices[0].offered.model, aggregator)
    for device in devices[1:]:
        await device.announce()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--broker", choices=("mosquitto", "embedded"), default="mosquitto")
    parser.add_argument("--cases", default=",".join(CASES), help="separated by commas")
    parser.add_argument("--messages", type=float, default=1000, help="per second and flooder; 0: as many as possible")
    parser.add_argument("--mbytes", type=float, default=4, help="per second and flooder; 0: as many as possible")
    parser.add_argument("--seconds", type=float, default=8, help="of each flood at least")
    add_quick(parser)
    parser.set_defaults(honest=HONEST, counts=COUNTS, rounds=ROUNDS)
    args = parser.parse_args()
    if args.quick:
        args.honest, args.counts, args.rounds, args.seconds, args.cases = 2, (1,), 1, 0.5, next(iter(CASES))
    cases = args.cases.split(",")
    if unknown := sorted(set(cases) - set(CASES)):
        parser.error(f"no case {unknown[0]!r}; there are: {', '.join(CASES)}")
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="edgestill-flood-") as name:
        processes = Processes(Path(name))
        try:
            rows = asyncio.run(run(Path(name), args, cases, processes))
        finally:
            processes.stop()
            log = Path(name) / "aggregator.log"
            if log.exists():
                print(f"the aggregator's log has {len(log.read_text().splitlines())} lines")
    if args.json:
        facts = {f"{r.case}:{r.flooders}": r.ratio for r in rows}
        print(json.dumps({"most": max(facts.values()), **facts, "rows": [asdict(r) for r in rows]}))


if __name__ == "__main__":
    main()
