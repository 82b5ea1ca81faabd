"""A TCP proxy between clients and a broker that misbehaves as told.

    with Proxy(broker.port, cut_every=5_000_000) as proxy:
        link = Link(BrokerConfig(port=proxy.port), ...)
        ...
        assert proxy.bytes_up < 55_000_000
        proxy.pause(); proxy.resume(); proxy.cut()

Cuts fall anywhere, also inside an MQTT packet. Duplicates and swaps are of whole PUBLISH packets, so they need a
connection without TLS. The same seed makes the same decisions for the same blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace

from transport.config import BrokerConfig

PUBLISH = 0x30
DUP = 0x08
BLOCK = 65_536


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong. Probabilities are per block of at most 64 KiB, or per PUBLISH packet."""

    cut_every: int | None = None  # bytes of one connection, both ways together
    cut_chance: float = 0.0  # of a cut within a block
    delay_s: float = 0.0  # each way
    duplicate: float = 0.0  # of a PUBLISH, either way
    swap: float = 0.0  # of a QoS 0 PUBLISH with the one after it, either way

    @property
    def of_packets(self) -> bool:
        return self.duplicate > 0 or self.swap > 0


class Proxy:
    """Listens on a free loopback port while the context lasts; counts what passes."""

    def __init__(self, broker_port: int, *, seed: int = 0, **faults: float | int | None) -> None:
        self.faults = Faults(**faults)  # type: ignore[arg-type]
        self.port = 0
        self.bytes_up = self.bytes_down = 0  # read from clients, and from the broker
        self.connections = self.cuts = self.duplicates = self.swaps = 0
        self._broker_port = broker_port
        self._random = random.Random(seed)
        self._open: set[_Connection] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fault proxy", daemon=True)

    @property
    def config(self) -> BrokerConfig:
        return BrokerConfig(port=self.port)

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._started.wait(120)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def set(self, **faults: float | int | None) -> None:
        """Change faults; those not named stay."""
        self.faults = replace(self.faults, **faults)  # type: ignore[arg-type]

    def pause(self) -> None:
        """Let nothing through, and close nothing: the network is silent."""
        self._call(self._running.clear)

    def resume(self) -> None:
        self._call(self._running.set)

    def cut(self) -> None:
        """Break all connections now."""
        self._call(lambda: [connection.cut() for connection in list(self._open)])

    def _call(self, what: object) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (what(), done.set()))  # type: ignore[operator]
        assert done.wait(120)

    async def _serve(self) -> None:
        self._loop, self._stop, self._running = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._running.set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for connection in list(self._open):
            connection.close()
        while self._open:
            await asyncio.sleep(0.01)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            writer.close()
            return
        connection = _Connection(self, (reader, writer), (up_reader, up_writer))
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)


class _Connection:
    """One client's connection: four tasks, one that reads and one that writes for each way."""

    def __init__(
        self,
        proxy: Proxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        broker: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy, self._client, self._broker = proxy, client, broker
        self._passed = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        up: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        down: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        ways = [
            self._read(self._client[0], up, "bytes_up"),
            self._write(up, self._broker[1]),
            self._read(self._broker[0], down, "bytes_down"),
            self._write(down, self._client[1]),
        ]
        self._tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self.close()

    def cut(self) -> None:
        self._proxy.cuts += 1
        self.close()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for _, writer in (self._client, self._broker):
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _read(
        self, reader: asyncio.StreamReader, queue: asyncio.Queue[tuple[float, bytes]], counter: str
    ) -> None:
        proxy, packets = self._proxy, _Packets()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(BLOCK):
                setattr(proxy, counter, getattr(proxy, counter) + len(data))
                due = asyncio.get_running_loop().time() + proxy.faults.delay_s
                for block in self._disturbed(packets.feed(data)) if proxy.faults.of_packets else [data]:
                    await queue.put((due, block))
        await queue.put((0.0, b""))  # the end, behind what was read before it
        await asyncio.Event().wait()  # the writer closes

    def _disturbed(self, packets: Iterator[bytes]) -> Iterator[bytes]:
        proxy, held = self._proxy, b""
        for packet in packets:
            ours = packet[0] & 0xF0 == PUBLISH
            if ours and not packet[0] & 0x06 and not held and proxy._random.random() < proxy.faults.swap:
                held = packet
                continue
            yield packet
            if ours and proxy._random.random() < proxy.faults.duplicate:
                proxy.duplicates += 1
                qos = packet[0] & 0x06
                yield bytes([packet[0] | DUP if qos else packet[0]]) + packet[1:]
            if held:
                proxy.swaps += 1
                yield held
                held = b""
        if held:
            yield held

    async def _write(self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        proxy, clock = self._proxy, asyncio.get_running_loop().time
        with contextlib.suppress(ConnectionError):
            while True:
                due, block = await queue.get()
                if not block:
                    return
                await asyncio.sleep(max(0.0, due - clock()))
                await proxy._running.wait()
                at = self._cut_at(len(block))
                writer.write(block if at is None else block[:at])
                await writer.drain()
                self._passed += len(block)
                if at is not None:
                    proxy.cuts += 1
                    return

    def _cut_at(self, size: int) -> int | None:
        faults, rng = self._proxy.faults, self._proxy._random
        if faults.cut_chance and rng.random() < faults.cut_chance:
            return rng.randrange(size)
        if faults.cut_every is not None and self._passed + size >= faults.cut_every:
            return faults.cut_every - self._passed
        return None


class _Packets:
    """Splits a stream into MQTT packets: one byte of type, a length in 7-bit digits, the rest."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while (size := self._size()) is not None and len(self._buffer) >= size:
            packet = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield packet

    def _size(self) -> int | None:
        value = 0
        for i, digit in enumerate(self._buffer[1:5]):
            value |= (digit & 0x7F) << 7 * i
            if digit < 0x80:
                return 2 + i + value
        return None
