"""Flooding devices in a separate process with the lowest priority, started by flood.py for its own broker.

It reads its parameters as one line of JSON, connects, prepares its messages, prints `ready`, sends from the next line
of input until its input ends (or `seconds` are over), and prints the amount sent.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator

from _fleet import FLEET
from _mqtt import Connection, open_connection, publish_packet

from wire.chunks import DEFAULT_CHUNK, MAX_CHUNK, Content, encode_chunk
from wire.codec import encode_message
from wire.envelope import seal
from wire.headers import encode_update
from wire.ids import digest_of, transfer_id
from wire.keys import Ed25519PrivateKey
from wire.messages import About, Metrics, UpdateHeader
from wire.topics import DeviceTopic, UpdateChunk

__all__ = ["CASES"]

Messages = Iterator[tuple[str, bytes]]
TICK_S = 0.01
KEPT_BYTES = 24 * 10**6  # bytes of prepared messages per device; they are then repeated
KEPT = 4000
LEAST = 4096  # bytes of a chunk: MIN_CHUNK of wire/chunks.py
UNSENT = 4 * 10**6  # unsent bytes in this process


def _chunk(device: str, content: Content, n: int, data: bytes) -> tuple[str, bytes]:
    topic = UpdateChunk(FLEET, device, transfer_id(content.digest), n)
    return str(topic), encode_chunk(content, n, data)


def _random_digest() -> str:
    return os.urandom(32).hex()


def tiny_chunks(device: str, _key: Ed25519PrivateKey) -> Messages:
    """62 bytes each, of a transfer that declares 65,536; every second one, so that the missing part is fragmented."""
    while True:
        content = Content(digest=_random_digest(), size=2**16, chunk_size=1)
        yield from (_chunk(device, content, n, b"x") for n in range(0, 2**16, 2))


def least_chunks(device: str, _key: Ed25519PrivateKey) -> Messages:
    """Chunks of the smallest accepted size, of a large update, every second one."""
    data = os.urandom(LEAST)
    while True:
        content = Content(digest=_random_digest(), size=60 * 10**6, chunk_size=LEAST)
        yield from (_chunk(device, content, n, data) for n in range(0, content.count - 1, 2))


def big_chunks(device: str, _key: Ed25519PrivateKey) -> Messages:
    """Chunks of the largest packet size."""
    data = os.urandom(MAX_CHUNK)
    while True:
        content = Content(digest=_random_digest(), size=60 * 10**6, chunk_size=MAX_CHUNK)
        yield from (_chunk(device, content, n, data) for n in range(content.count - 1))


def many_transfers(device: str, _key: Ed25519PrivateKey) -> Messages:
    """Each message is the last chunk of another update."""
    while True:
        yield _chunk(device, Content(digest=_random_digest(), size=40 * DEFAULT_CHUNK + 1), 40, b"x")


def late_updates(device: str, key: Ed25519PrivateKey) -> Messages:
    """Complete updates of a closed round, correctly signed, all different."""
    header = UpdateHeader(
        round=1,
        device=device,
        prototype="cnn:fp32",
        update="state",
        num_examples=100,
        label_counts=(10,) * 10,
        base="0" * 64,
    )
    while True:
        sealed = seal(
            encode_update(header, os.urandom(2000)), key=key, kind="update", sender=device, fleet=FLEET, round=1
        )
        yield _chunk(device, Content(digest=digest_of(sealed), size=len(sealed)), 0, sealed)


def repeated_updates(device: str, key: Ed25519PrivateKey) -> Messages:
    """One refused update, repeated."""
    return itertools.cycle([next(late_updates(device, key))])


def metrics(device: str, key: Ed25519PrivateKey) -> Messages:
    """Correctly signed metrics with a problem to be logged."""
    topic = str(DeviceTopic(FLEET, device, "metrics"))
    for number in itertools.count(1):
        told = encode_message(Metrics(round=number, problem="p" * 150))
        yield topic, seal(told, key=key, kind="metrics", sender=device, fleet=FLEET, round=number)


def changing_about(device: str, key: Ed25519PrivateKey) -> Messages:
    """Another prototype each time, so that the aggregator must publish a new instruction."""
    topic = str(DeviceTopic(FLEET, device, "about"))
    for prototype in itertools.cycle(["cnn:fp32", "mlp:fp32"]):
        about = About(board=_random_digest()[:8], prototype=prototype, precision="fp32", label_counts=(10,) * 10)
        yield topic, seal(encode_message(about), key=key, kind="about", sender=device, fleet=FLEET)


def garbage(device: str, _key: Ed25519PrivateKey) -> Messages:
    """Random bytes on every topic that a device has."""
    for n in itertools.count():
        yield str(UpdateChunk(FLEET, device, f"{n:032x}", n % 50)), os.urandom(200)
        yield str(DeviceTopic(FLEET, device, "state")), os.urandom(200)


def long_topics(device: str, _key: Ed25519PrivateKey) -> Messages:
    """Topics of 60,000 characters."""
    while True:
        yield f"edgestill/1/{FLEET}/{device}{os.urandom(30_000).hex()}/state", b"x"


def enrolment(device: str, _key: Ed25519PrivateKey) -> Messages:
    """Enrolment requests of unknown boards, each under another name."""
    for n in itertools.count():
        yield str(DeviceTopic(FLEET, f"{device}-{n}", "enrol")), os.urandom(1000)


CASES: dict[str, Callable[[str, Ed25519PrivateKey], Messages]] = {
    "tiny chunks": tiny_chunks,
    "least chunks": least_chunks,
    "big chunks": big_chunks,
    "many transfers": many_transfers,
    "late updates": late_updates,
    "repeated update": repeated_updates,
    "metrics": metrics,
    "changing about": changing_about,
    "garbage": garbage,
    "long topics": long_topics,
    "enrolment": enrolment,
}


def packets(case: str, device: str, key: Ed25519PrivateKey, count: int) -> list[bytes]:
    """The encoded messages of one device."""
    made: list[bytes] = []
    size = 0
    for topic, payload in itertools.islice(CASES[case](device, key), count):
        made.append(publish_packet(topic, payload))
        size += len(made[-1])
        if size > KEPT_BYTES:
            break
    random.Random(device).shuffle(made)
    return made


async def send(link: Connection, made: list[bytes], rates: tuple[float, float], until: float) -> tuple[int, int]:
    """Send at most so many messages and bytes a second (0: as fast as it goes) until told to stop: what was sent."""
    messages, size, started, turn = 0, 0, time.monotonic(), itertools.cycle(made)
    most, most_bytes = rates
    while (now := time.monotonic()) < until and not stopped.is_set():
        passed = now - started + TICK_S
        while link.unsent() < UNSENT and not stopped.is_set():
            if (most and messages >= most * passed) or (most_bytes and size >= most_bytes * passed):
                break
            packet = next(turn)
            link.write(packet)
            messages, size = messages + 1, size + len(packet)
            if messages % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(TICK_S)
    return messages, size


stopped = asyncio.Event()


async def flood(order: dict) -> None:
    """Flood according to the parameters on stdin."""
    rates = order["messages"], order["bytes"]
    count = int(min(KEPT, order["messages"] * order["seconds"] or KEPT))
    links = [await open_connection(order["port"], name, lambda *_: None) for name in order["keys"]]
    keys = {name: Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)) for name, text in order["keys"].items()}
    made = [packets(order["case"], name, key, count) for name, key in keys.items()]
    os.nice(19)
    print("ready", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await lines.readline()
    until = time.monotonic() + order["seconds"]
    sending = asyncio.gather(*(send(link, each, rates, until) for link, each in zip(links, made, strict=True)))
    await lines.read()  # to its end
    stopped.set()
    sent = await sending
    for link in links:
        link.close()
    print(json.dumps({"messages": sum(m for m, _ in sent), "bytes": sum(b for _, b in sent)}), flush=True)


if __name__ == "__main__":
    asyncio.run(flood(json.loads(sys.stdin.readline())))
