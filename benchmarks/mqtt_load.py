"""A round with 200 and with 1,000 devices over Mosquitto, against what the broker alone can carry.

    python benchmarks/mqtt_load.py [--json] [--devices 200,1000]

Real connections of light devices (one process), a real aggregator process that makes every update durable before it
answers. Each device sends one signed update of 100 KB (`cnn:fp32`) in chunks, as an agent does. Measured: seconds from
the opening of the round in the aggregator's journal to the last `Accepted`; peak memory of the aggregator process;
bytes per second against the same chunks from as many connections to one bare paho subscriber, through the same broker,
three times before and three times after the round (median). Updates are signed before the round opens: a device's
training is not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from _fleet import device_names, write_fleet
from _load_devices import LightDevice, fetch_tensors, until
from _machine import Mosquitto, allow_files, peak_mb
from _mqtt import open_connection, publish_packet

from aggregator.journal import Journal
from fleet.processes import Processes
from wire.chunks import DEFAULT_CHUNK
from wire.keys import generate_key

PROTOTYPE, SHAPE = "cnn:fp32", "1x28x28"
ROUND_S = 180.0  # at most
RAW_RUNS = 3  # before the round, and after it


@dataclass(frozen=True, slots=True)
class Result:
    devices: int
    seconds: float  # from the opening of the round to the last Accepted
    rss_mb: float  # peak of the aggregator
    sent_mb: float  # by all devices, repetitions included
    repeated: float  # share of the bytes that was sent again
    rate_mb_s: float
    raw_mb_s: float  # of the broker alone: the median of all raw runs
    raw_least_mb_s: float
    raw_most_mb_s: float
    raw_lost: int  # messages that the broker dropped in the raw runs
    ratio_to_raw: float


async def raw_rate(port: int, devices: int, sizes: list[int], number: int) -> tuple[float, int]:
    """MB/s of the same bytes to one bare subscriber, and how many messages did not arrive."""
    topic = f"raw/{number}"
    command = [sys.executable, str(Path(__file__).with_name("_raw_subscriber.py")), str(port), f"{topic}/#"]
    reader = subprocess.Popen([*command, str(devices * len(sizes))], stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None
        await asyncio.to_thread(reader.stdout.readline)  # ready
        links = [await open_connection(port, f"raw-{i}", lambda *_: None) for i in range(devices)]
        packets = [
            [publish_packet(f"{topic}/{i}/{n}", bytes(size)) for n, size in enumerate(sizes)] for i in range(devices)
        ]
        start = time.monotonic()
        for link, mine in zip(links, packets, strict=True):
            for packet in mine:
                link.write(packet)
            await asyncio.sleep(0)
        facts = json.loads(await asyncio.to_thread(reader.stdout.readline))
        for link in links:
            link.close()
    finally:
        reader.kill()
        reader.wait()
    return facts["bytes"] / 1e6 / (facts["last"] - start), devices * len(sizes) - facts["messages"]


async def fleet_round(
    folder: Path, port: int, count: int, processes: Processes
) -> tuple[float, float, float, list[int]]:
    """Seconds, peak MB of the aggregator, MB sent, and the sizes of one device's chunks."""
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
        await until(lambda: all(d.offered for d in first), 60, "offers to all devices", processes.check)
        assert first[0].offered is not None
        tensors = await fetch_tensors(port, first[0].offered.model, aggregator)
        sizes = [device.prepare(tensors, first[0].offered.model) for device in devices]
        opened = _opened(folder / name / "state" / "journal.db")
        await last.announce()  # now enough devices are there, and the round opens
        await until(lambda: all(d.accepted_at for d in devices), ROUND_S, "all updates accepted", _ticker(devices))
        end = max(d.accepted_at or 0.0 for d in devices)
        await until(lambda: first[0].offered is not None and first[0].offered.round == 1, ROUND_S, "the fused model")
        return end - opened(), peak_mb(pid), sum(d.bytes_up for d in devices) / 1e6, _chunks(sizes[0])
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


def _ticker(devices: list[LightDevice]) -> Callable[[], None]:
    def tick() -> None:
        for device in devices:
            device.tick()

    return tick


def _chunks(size: int) -> list[int]:
    """What one device sends, cut as the protocol cuts it."""
    full, rest = divmod(size, DEFAULT_CHUNK)
    return [DEFAULT_CHUNK] * full + ([rest] if rest else [])


async def measure(folder: Path, port: int, count: int, size_hint: list[int]) -> Result:
    """Raw, the round, raw again."""
    raws = [await raw_rate(port, count, size_hint, number) for number in range(RAW_RUNS)]
    seconds, rss, sent, sizes = await fleet_round(folder, port, count, Processes(folder))
    raws += [await raw_rate(port, count, sizes, number) for number in range(RAW_RUNS, 2 * RAW_RUNS)]
    useful = count * sum(sizes) / 1e6
    rates = [rate for rate, _ in raws]
    raw = statistics.median(rates)
    return Result(
        devices=count,
        seconds=round(seconds, 3),
        rss_mb=round(rss, 1),
        sent_mb=round(sent, 1),
        repeated=round(max(0.0, sent / useful - 1), 4),
        rate_mb_s=round(useful / seconds, 1),
        raw_mb_s=round(raw, 1),
        raw_least_mb_s=round(min(rates), 1),
        raw_most_mb_s=round(max(rates), 1),
        raw_lost=sum(lost for _, lost in raws),
        ratio_to_raw=round(useful / seconds / raw, 3),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--devices", default="200,1000", help="numbers of devices, smallest first")
    args = parser.parse_args()
    counts = [int(n) for n in args.devices.split(",")]
    allow_files(max(counts) + 500)
    results = []
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="edgestill-load-") as name, Mosquitto(Path(name)) as broker:
            results.append(asyncio.run(measure(Path(name), broker.port, count, _chunks(107_000))))
    print(f"{'devices':>8s} {'seconds':>8s} {'MB/s':>7s} {'raw MB/s':>9s} {'(from':>6s} {'to)':>6s}", end="")
    print(f" {'ratio':>6s} {'peak MB':>8s} {'again':>6s}")
    for r in results:
        print(
            f"{r.devices:8,d} {r.seconds:8.2f} {r.rate_mb_s:7.1f} {r.raw_mb_s:9.1f} {r.raw_least_mb_s:6.0f} "
            f"{r.raw_most_mb_s:6.0f} {r.ratio_to_raw:6.2f} {r.rss_mb:8.1f} {r.repeated:6.1%}"
        )
    if args.json:
        facts: dict[str, object] = {}
        for r in results:
            facts |= {f"seconds_{r.devices}": r.seconds, f"rss_mb_{r.devices}": r.rss_mb}
        facts["ratio_to_raw"] = min(r.ratio_to_raw for r in results)
        facts["rss_growth_mb"] = round(results[-1].rss_mb - results[0].rss_mb, 1)
        print(json.dumps({**facts, "rows": [asdict(r) for r in results]}))


if __name__ == "__main__":
    main()
