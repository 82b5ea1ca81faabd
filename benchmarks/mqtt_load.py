"""A round with 200 and with 1,000 devices over Mosquitto, against the throughput of the broker alone.

    python benchmarks/mqtt_load.py [--json] [--quick] [--devices 200,1000] [--raw-runs 3]

Real connections of light devices (one process), a real aggregator process that makes every update durable before it
answers. Each device sends one signed update of 100 KB (`cnn:fp32`) in chunks, as an agent does. Measured: seconds from
the opening of the round in the aggregator's journal to the last `Accepted`; peak memory of the aggregator process; and
bytes per second against the same chunks from as many connections to one bare paho subscriber, through the same broker,
three times before and three times after the round (median). Updates are signed before the round opens: training is not
measured.

`ratio_to_raw` compares with QoS 1, where every message is acknowledged too; `ratio_to_raw_qos0` with QoS 0, without
acknowledgements. Chunks are sent with QoS 0: the aggregator's answers, sent when an update is durable, replace the
broker's acknowledgements. `--raw-runs 0`: the fleet alone, without ratios. `--quick`: three devices, one raw run before
and one after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from _fleet import device_names, write_fleet
from _load_devices import LightDevice, fetch_tensors, until
from _machine import Mosquitto, allow_files, cpu_seconds, peak_mb
from _quick import add_quick
from _raw import raw_runs

from aggregator.storage.journal import Journal
from fleet.mqtt.processes import Processes
from wire.chunks import DEFAULT_CHUNK
from wire.keys import generate_key

PROTOTYPE, SHAPE = "cnn:fp32", "1x28x28"
ROUND_S = OFFERS_S = 600.0  # at most
ANNOUNCE_S = 30.0  # as agents do
RAW_RUNS = 3  # before the round, and after it


@dataclass(frozen=True, slots=True)
class Result:
    devices: int
    seconds: float  # from the opening of the round to the last Accepted
    rss_mb: float  # peak of the aggregator
    sent_mb: float  # by all devices, repetitions included
    repeated: float  # fraction of bytes that were repeated
    rate_mb_s: float
    cpu_ms: dict[str, float]  # per update, from the opening to the last Accepted, of aggregator, broker and all devices
    raw_mb_s: float  # of the broker alone at QoS 1: the median of all raw runs
    raw_least_mb_s: float
    raw_most_mb_s: float
    raw_qos0_mb_s: float  # the same at QoS 0, median
    raw_lost: int  # messages that the broker dropped in the raw runs
    ratio_to_raw: float  # QoS 1
    ratio_to_raw_qos0: float


@dataclass(frozen=True, slots=True)
class Round:
    """The measurements of one round."""

    seconds: float
    peak_mb: float  # of the aggregator
    sent_mb: float
    chunks: list[int]  # sizes of one device's
    cpu_s: dict[str, float]


async def fleet_round(folder: Path, broker: Mosquitto, count: int, processes: Processes) -> Round:
    """One round of `count` devices, which opens when all are connected."""
    port = broker.port
    keys = {name: generate_key() for name in device_names(count)}
    name = f"aggregator-{count}"
    key = write_fleet(folder / name, port=port, prototype=PROTOTYPE, shape=SHAPE, rounds=1, devices=keys)
    aggregator = key.public_key()
    processes.start(name, ["aggregator", "serve", "--config", f"{name}/fleet.toml"])
    pid = processes.running[name].pid
    devices = [LightDevice(device, key, aggregator, PROTOTYPE) for device, key in keys.items()]
    try:
        status = folder / name / "state" / "status.json"
        await until(lambda: _listening(status), 60, "the aggregator's connection", processes.check)
        await asyncio.gather(*(device.connect(port) for device in devices))
        first, last = devices[:-1], devices[-1]
        await asyncio.gather(*(device.announce() for device in first))
        call = _roll_call(first, processes.check)
        await until(lambda: all(d.offered for d in first), OFFERS_S, "offers to all devices", call)
        assert first[0].offered is not None
        tensors = await fetch_tensors(port, first[0].offered.model, aggregator)
        sizes = [device.prepare(tensors, first[0].offered.model) for device in devices]
        opened = _opened(folder / name / "state" / "journal.db")
        pids = {"aggregator": pid, "broker": broker.pid, "devices": os.getpid()}
        before = {who: cpu_seconds(which) for who, which in pids.items()}
        await last.announce()  # now enough devices are connected, and the round opens
        await until(lambda: all(d.accepted_at for d in devices), ROUND_S, "all updates accepted", _ticker(devices))
        end = max(d.accepted_at or 0.0 for d in devices)
        cpu = {who: cpu_seconds(which) - before[who] for who, which in pids.items()}
        await until(lambda: first[0].offered is not None and first[0].offered.round == 1, ROUND_S, "the fused model")
        sent = sum(d.bytes_up for d in devices) / 1e6
        return Round(end - opened(), peak_mb(pid), sent, _chunks(sizes[0]), cpu)
    finally:
        for device in devices:
            device.close()
        processes.stop()


def _listening(status: Path) -> bool:
    """Whether the aggregator has subscribed."""
    try:
        return bool(json.loads(status.read_text()).get("connected"))
    except (OSError, ValueError):
        return False


def _opened(journal: Path) -> Callable[[], float]:
    """When round 1 was opened, by the system's monotonic clock."""
    offset = time.time() - time.monotonic()

    def opened() -> float:
        book = Journal(journal, read_only=True)
        try:
            row = book.last_round()
        finally:
            book.close()
        assert row is not None
        return row.opened - offset

    return opened


def _roll_call(devices: list[LightDevice], check: Callable[[], None]) -> Callable[[], None]:
    """Devices without an offer announce themselves again.

    Mosquitto drops messages beyond 1,000 in the queue of a busy aggregator, and a thousand devices that connect at once
    send two thousand: in one run 173 announcements were lost.
    """
    called, tasks = time.monotonic(), set[asyncio.Task[None]]()

    def step() -> None:
        nonlocal called
        check()
        if time.monotonic() - called > ANNOUNCE_S:
            called = time.monotonic()
            silent = [device for device in devices if device.offered is None]
            print(
                f"{len(silent)} of {len(devices)} devices have no offer yet and announce themselves again", flush=True
            )
            tasks.update(asyncio.ensure_future(device.announce()) for device in silent)

    return step


def _ticker(devices: list[LightDevice]) -> Callable[[], None]:
    def tick() -> None:
        for device in devices:
            device.tick()

    return tick


def _chunks(size: int) -> list[int]:
    """The chunk sizes of one device's update, as in the protocol."""
    full, rest = divmod(size, DEFAULT_CHUNK)
    return [DEFAULT_CHUNK] * full + ([rest] if rest else [])


async def measure(folder: Path, broker: Mosquitto, count: int, size_hint: list[int], runs: int) -> Result:
    """Raw runs, the round, and raw runs again."""
    raws = await raw_runs(broker.port, count, size_hint, runs)
    done = await fleet_round(folder, broker, count, Processes(folder))
    raws += await raw_runs(broker.port, count, done.chunks, runs)
    useful = count * sum(done.chunks) / 1e6
    rate = useful / done.seconds
    unsure, rates = ([run.rate for run in raws if run.qos == qos] for qos in (0, 1))
    raw, raw_qos0 = statistics.median(rates or [0.0]), statistics.median(unsure or [0.0])
    return Result(
        devices=count,
        seconds=round(done.seconds, 3),
        rss_mb=round(done.peak_mb, 1),
        sent_mb=round(done.sent_mb, 1),
        repeated=round(max(0.0, done.sent_mb / useful - 1), 4),
        rate_mb_s=round(rate, 1),
        cpu_ms={who: round(1e3 * seconds / count, 2) for who, seconds in done.cpu_s.items()},
        raw_mb_s=round(raw, 1),
        raw_least_mb_s=round(min(rates, default=0.0), 1),
        raw_most_mb_s=round(max(rates, default=0.0), 1),
        raw_qos0_mb_s=round(raw_qos0, 1),
        raw_lost=sum(run.lost for run in raws),
        ratio_to_raw=round(rate / raw, 3) if raws else 0.0,
        ratio_to_raw_qos0=round(rate / raw_qos0, 3) if raws else 0.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--devices", default="200,1000", help="numbers of devices, smallest first")
    parser.add_argument("--raw-runs", type=int, default=RAW_RUNS, help="of the broker alone, before and after")
    add_quick(parser)
    args = parser.parse_args()
    counts = [3] if args.quick else [int(n) for n in args.devices.split(",")]
    allow_files(max(counts) + 500)
    results = []
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="edgestill-load-") as name, Mosquitto(Path(name)) as broker:
            runs = 1 if args.quick else args.raw_runs
            results.append(asyncio.run(measure(Path(name), broker, count, _chunks(107_000), runs)))
    print(f"{'devices':>8s} {'seconds':>8s} {'MB/s':>7s} {'raw MB/s':>9s} {'(from':>6s} {'to)':>6s}", end="")
    print(f" {'ratio':>6s} {'QoS 0':>6s} {'ratio':>6s} {'peak MB':>8s} {'again':>6s}")
    for r in results:
        print(
            f"{r.devices:8,d} {r.seconds:8.2f} {r.rate_mb_s:7.1f} {r.raw_mb_s:9.1f} {r.raw_least_mb_s:6.0f} "
            f"{r.raw_most_mb_s:6.0f} {r.ratio_to_raw:6.2f} {r.raw_qos0_mb_s:6.0f} {r.ratio_to_raw_qos0:6.2f} "
            f"{r.rss_mb:8.1f} {r.repeated:6.1%}"
        )
    for r in results:
        shares = ", ".join(f"{who} {ms:.2f}" for who, ms in r.cpu_ms.items())
        print(f"CPU milliseconds per update, {r.devices:,d} devices: {shares}")
    if args.json:
        facts: dict[str, object] = {}
        for r in results:
            facts |= {f"seconds_{r.devices}": r.seconds, f"rss_mb_{r.devices}": r.rss_mb}
        facts["ratio_to_raw"] = min(r.ratio_to_raw for r in results)
        facts["ratio_to_raw_qos0"] = min(r.ratio_to_raw_qos0 for r in results)
        facts["rss_growth_mb"] = round(results[-1].rss_mb - results[0].rss_mb, 1)
        print(json.dumps({**facts, "rows": [asdict(r) for r in results]}))


if __name__ == "__main__":
    main()
