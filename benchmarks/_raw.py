"""Throughput of the broker alone: the chunks of all devices, from as many connections, to one bare paho subscriber.

Nothing is checked, stored or answered. At QoS 1 broker and subscriber acknowledge every message, as with
`mosquitto_pub -q 1` and `mosquitto_sub -q 1`; at QoS 0 there are no acknowledgements. At most `WINDOW` messages are in
flight, because Mosquitto drops messages queued beyond 1,000.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from _mqtt import Connection, open_connection, publish_packet

__all__ = ["RawRun", "raw_runs"]

WINDOW = 500  # messages
SUBSCRIBER = str(Path(__file__).with_name("_raw_subscriber.py"))
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class RawRun:
    """MB/s, and the number of lost messages."""

    qos: int
    rate: float
    lost: int


async def raw_runs(port: int, devices: int, sizes: list[int], times: int) -> list[RawRun]:
    """QoS 0 and QoS 1 in turn, `times` each; `sizes` are those of one device's messages."""
    links = [await open_connection(port, f"raw-{i}", lambda *_: None) for i in range(devices)]
    try:
        return [await _run(port, links, sizes, qos) for _ in range(times) for qos in (0, 1)]
    finally:
        for link in links:
            link.close()


async def _run(port: int, links: list[Connection], sizes: list[int], qos: int) -> RawRun:
    topic, expected = f"raw/{next(_numbers)}", len(links) * len(sizes)
    packets = [
        [publish_packet(f"{topic}/{i}/{n}", bytes(size), n * qos) for n, size in enumerate(sizes, 1)]
        for i in range(len(links))
    ]
    command = [sys.executable, SUBSCRIBER, str(port), f"{topic}/#", str(expected), str(qos)]
    reader = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    counts = _Counts(reader)
    try:
        await counts.read()  # ready
        start = monotonic()
        for n, (link, mine) in enumerate(zip(links, packets, strict=True)):
            await counts.reach((n + 1) * len(sizes) - WINDOW)
            for packet in mine:
                link.write(packet)
            await asyncio.sleep(0)
        await counts.reach(expected + 1)
    finally:
        if reader.returncode is None:
            reader.kill()
        await reader.wait()
    rate = counts.facts["bytes"] / 1e6 / (counts.facts["last"] - start)
    return RawRun(qos, rate, expected - counts.facts["messages"])


class _Counts:
    """The counts that the subscriber prints."""

    def __init__(self, reader: asyncio.subprocess.Process) -> None:
        self._reader = reader
        self.came = 0
        self.facts: dict[str, float] = {}  # its final output

    async def reach(self, count: int) -> None:
        """Wait until this many messages have arrived, or the subscriber has ended."""
        while self.came < count and not self.facts:
            line = await self.read()
            if line.startswith(b"{"):
                self.facts = json.loads(line)
            else:
                self.came = int(line)

    async def read(self) -> bytes:
        assert self._reader.stdout is not None
        line = await self._reader.stdout.readline()
        if not line:
            raise SystemExit("the bare subscriber died")
        return line
