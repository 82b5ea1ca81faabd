"""Hostile messages, each made from an honest one by structure: `case(kind, number)` is always the same case.

Whoever sends them holds a real device's key (or a real card's claim), and signs what he has made up.
"""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.errors import TensorError
from tests.aggregator.scripted import FLEET, key_of
from tests.fuzz import world
from tests.fuzz.der import Node, mutate_der, parse_der
from tests.fuzz.protobuf import mutate_graph
from tests.fuzz.values import encode_mutant
from wire.chunks import encode_chunk
from wire.codec import encode_message
from wire.enrolment import _to_sign as to_prove
from wire.envelope import CONTEXT
from wire.ids import digest_of, transfer_id
from wire.keys import Ed25519PrivateKey
from wire.messages import About, Enrol, Installing, Metrics, Reported, State, UpdateHeader, Upgraded
from wire.tensors import Packed, Tensor, encode
from wire.tensors.entries import DEFAULT_LIMITS, Entry, layout
from wire.tensors.frame import frame, unframe
from wire.topics import DeviceTopic, UpdateChunk

__all__ = ["DEVICES", "KINDS", "MESSAGES", "Case", "case", "cases"]

MESSAGES = ("state", "about", "metrics", "reported", "installing", "upgraded")
KINDS = (*MESSAGES, "chunk", *(f"update-{kind}" for kind in world.UPDATES), "enrol")
#: One hostile device of each prototype.
DEVICES = {f"evil-{i}": prototype for i, prototype in enumerate(world.PROTOTYPES)}
ROUND = 1
HONEST = {
    "state": State(status="online", session=9),
    "about": About(board="pi4", prototype="cnn:w1", precision="w1", label_counts=(1, 2, 3), versions={"numpy": "2"}),
    "metrics": Metrics(round=1, train_loss=0.5, seconds=2.0, temperature_c=40.0, bytes_up=9, problem="hot"),
    "reported": Reported(version=3, status="applied", settings={"train.lr": "0.1"}, refused={"a.b": "no"}, reason="r"),
    "installing": Installing(number=7, reason="312 MB are free in /opt"),
    "upgraded": Upgraded(number=7, phase="back", version="0.2.0", reason="the new agent has ended 3 times"),
}


@dataclass(frozen=True)
class Case:
    """One case: what is published, in order. `body` is what a decoder meets, without transport around it."""

    kind: str
    number: int
    device: str
    messages: tuple[tuple[str, bytes], ...]
    body: bytes

    def __str__(self) -> str:
        return f"case {self.number} of {self.kind!r}; repeat it: python -m tests.fuzz {self.kind} {self.number}"


def cases(kind: str, count: int) -> Iterator[Case]:
    return (case(kind, number) for number in range(count))


@np.errstate(all="ignore")  # infinities on purpose
def case(kind: str, number: int) -> Case:
    """The same for the same arguments."""
    rng = random.Random(f"{kind} {number}")
    device = rng.choice(list(DEVICES))
    if kind in MESSAGES:
        payload = _sealed(rng, encode_mutant(rng, _fields(HONEST[kind])), kind, device)
        leaf = kind if rng.random() < 0.95 else rng.choice([*MESSAGES, "enrol"])
        return Case(kind, number, device, ((str(DeviceTopic(FLEET, device, leaf)), payload),), payload)
    if kind == "chunk":
        return Case(kind, number, device, tuple(_chunks(rng, device)), b"")
    if kind == "enrol":
        request = _request(rng)
        return Case(kind, number, world.BOARD, ((str(DeviceTopic(FLEET, world.BOARD, "enrol")), request),), request)
    sealed = _update(rng, kind.removeprefix("update-"), device)
    return Case(kind, number, device, tuple(_whole(device, sealed)), sealed)


def _fields(message: Any) -> list[Any]:
    """The message as the list that travels."""
    found: list[Any] = msgspec.msgpack.decode(encode_message(message))
    return found


def _sealed(
    rng: random.Random,
    payload: bytes,
    kind: str,
    device: str,
    number: int = 0,
    *,
    key: Ed25519PrivateKey | None = None,
    odd: float = 0.05,
) -> bytes:
    """An envelope with a good signature; now and then its head is a mutant too."""
    head: list[Any] = [kind, device, number, rng.randbytes(12)]
    coded = encode_mutant(rng, head)[:255] if rng.random() < odd else msgspec.msgpack.encode(head)
    length = len(coded) if rng.random() > odd / 5 else rng.choice([0, 1, 255])
    opening = bytes([1, length]) + coded
    signed = CONTEXT + FLEET.encode() + b"\0" + hashlib.sha256(opening + payload).digest()
    return opening + payload + (key or key_of(device)).sign(signed)


def _whole(device: str, sealed: bytes, size: int = 64 * 1024) -> Iterator[tuple[str, bytes]]:
    """A sealed update in honest chunks."""
    from wire.chunks import Content

    content = Content(digest=digest_of(sealed), size=len(sealed), chunk_size=size)
    for n in range(content.count):
        data = encode_chunk(content, n, sealed[n * size : (n + 1) * size])
        yield str(UpdateChunk(FLEET, device, transfer_id(content.digest), n)), data


# chunks


def _chunks(rng: random.Random, device: str) -> Iterator[tuple[str, bytes]]:
    """Chunks of a small update whose geometry lies; their own hashes are right."""
    data = rng.randbytes(rng.choice([0, 1, 100, 5000]))
    digest = digest_of(data) if rng.random() < 0.7 else rng.randbytes(32).hex()
    for _ in range(rng.choice([1, 2, 5])):
        size = rng.choice([len(data), len(data), 0, 1, 2**16, 2**29, 2**32 - 1])
        chunk_size = rng.choice([1, 40, 62, len(data) or 1, 64 * 1024, 1_900_000, 1_900_001, 0, 2**32 - 1])
        n = rng.choice([0, 0, 1, 2, 65_535, 65_536, 2**32 - 1])
        piece = data[n * chunk_size : (n + 1) * chunk_size] if rng.random() < 0.7 else rng.randbytes(chunk_size % 5000)
        head = struct.pack("<BIII32s", rng.choice([1] * 20 + [0, 2, 255]), size, chunk_size, n, bytes.fromhex(digest))
        payload = head + hashlib.sha256(head + piece).digest()[:16] + piece
        if rng.random() < 0.1:
            payload = rng.choice([b"", payload[:44], payload[:61], payload + b"x", rng.randbytes(70)])
        transfer = transfer_id(digest) if rng.random() < 0.9 else rng.choice(["x", "0" * 48, "a-b"])
        topic = str(UpdateChunk(FLEET, device, transfer, min(n, 10**9 - 1) if rng.random() < 0.9 else 7))
        if rng.random() < 0.03:
            topic = rng.choice(
                [topic + "/x", topic.replace("/up/", "/down/"), topic[:-1] + "٣", topic[:20], topic + "9" * 200]
            )
        yield topic, payload


# updates


def _update(rng: random.Random, kind: str, device: str) -> bytes:
    prototype = DEVICES[device]
    fields: dict[str, Any] = {
        "round": ROUND,
        "device": device,
        "prototype": prototype,
        "update": kind,
        "num_examples": 10,
        "label_counts": (4, 3, 3),
        "base": world.digest(prototype),
        "metrics": {"train_loss": 0.5},
    }
    how = rng.choice(["fields", "lie", "lie", "body", "body", "body", "body", "body", "bytes"])
    if how == "lie":
        fields.update(_lie(rng))
    head = encode_message(UpdateHeader(**fields))
    if how == "fields":
        head = encode_mutant(rng, msgspec.msgpack.decode(head))[: 2**16 - 1]
    body = _body(rng, kind, prototype, mutate=how == "body")
    if how == "bytes":
        body = _noise(rng, body)
    length = len(head) if rng.random() < 0.98 else rng.choice([0, 1, 2**16 - 1])
    return _sealed(rng, struct.pack("<H", length) + head + body, "update", device, ROUND, odd=0.02)


def _lie(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        [
            {"num_examples": 0},
            {"num_examples": 2**53},
            {"num_examples": 1, "label_counts": (2**53,) * 3},
            {"label_counts": ()},
            {"label_counts": (0, 0, 0)},
            {"label_counts": (1,) * 10_000},
            {"update": rng.choice(world.UPDATES)},
            {"base": None},
            {"base": "0" * 64},
            {"round": 2**32 - 1},
            {"device": "evil-9"},
            {"prototype": rng.choice([*world.PROTOTYPES, "no:such", "cnn:w4a4"])},
            {"metrics": {"train_loss": 1e308, "x" * 200: -1e308}},
            {"metrics": {str(i): float(i) for i in range(64)}},
        ]
    )


def _body(rng: random.Random, kind: str, prototype: str, *, mutate: bool) -> bytes:
    if kind == "onnx":
        return mutate_graph(rng, world.graph(prototype)) if mutate else world.graph(prototype)
    tensors = world.honest(prototype, kind)
    if not mutate:
        return encode(tensors)
    if tensors and rng.random() < 0.25:
        return _odd_header(rng, encode(tensors))
    try:
        for _ in range(rng.choice([1, 1, 2, 3])):
            tensors = _mutate_tensors(rng, dict(tensors))
        return encode(tensors)
    except TensorError:  # our own side does not write it
        if kind == "none":
            return encode({"x": np.zeros(1, np.float32)})
        return _odd_header(rng, encode(world.honest(prototype, kind)))


def _mutate_tensors(rng: random.Random, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    name = rng.choice([*tensors]) if tensors else "x"
    value = tensors.pop(name, np.zeros(1, np.float32))
    match rng.choice(
        ["drop", "name", "dtype", "shape", "shape", "values", "values", "values", "packed", "packed", "extra"]
    ):
        case "name":
            names = [
                name + "x",
                name[:-1] or "y",
                name.upper(),
                "label-logits",
                "é" * 90,
                "extractor",
                "predictor.",
                "x" * 200,
            ]
            tensors[rng.choice(names)] = value
        case "dtype":
            kind = rng.choice([np.uint8, np.int8, np.int32, np.int64, np.float16, np.float32])
            tensors[name] = np.asarray(np.nan_to_num(_array(value))).astype(kind)
        case "shape":
            tensors[name] = _reshaped(rng, _array(value))
        case "values":
            tensors[name] = _extreme(rng, _array(value))
        case "packed":
            tensors[name] = _repacked(rng, value)
        case "extra":
            tensors[name] = value
            shape = rng.choice([(3, 3), (3,), (0, 0), (3, 3, 1), (100, 100), (300, 300)])
            extra = np.full(shape, rng.choice([0, 1e6, 3e38]), rng.choice([np.float32, np.int64, np.uint8]))
            tensors[rng.choice(["label-logits", "more", "extractor.more"])] = extra
    return tensors


def _array(value: Tensor) -> Any:
    return value.dequantize() if isinstance(value, Packed) else value


def _reshaped(rng: random.Random, array: Any) -> Any:
    return rng.choice(
        [
            array.reshape(-1),
            array.reshape(1, -1),
            array.T,
            array[..., None],
            array.reshape(array.shape + (1,) * (8 - array.ndim)),
            array.reshape(-1)[:0],
            np.zeros((0,) * 3, array.dtype),
            np.zeros((2**20, 0), array.dtype),
            np.repeat(array.reshape(-1), 3),
        ]
    )


def _extreme(rng: random.Random, array: Any) -> Any:
    changed = np.asarray(array).astype(rng.choice([np.float32, np.float32, np.float16]))
    flat = changed.reshape(-1)
    extreme = rng.choice([3.4e38, -3.4e38, 1e6, 1.001e6, -1e6, 65504.0, 1e12, 1.1e12, 1e-45, -1e-9, 0.0])
    if changed.dtype == np.float16:
        extreme = float(np.clip(extreme, -65504, 65504))
    where = rng.choice([slice(None), slice(0, 1), slice(-1, None)])
    flat[where] = extreme
    return flat.reshape(array.shape)


def _repacked(rng: random.Random, value: Tensor) -> Tensor:
    levels = np.asarray(np.sign(np.nan_to_num(_array(value)))).astype(np.int8).copy()
    bits = rng.choice([1, 2, 4, 8])
    if bits == 1:
        levels[levels == 0] = 1
    elif rng.random() < 0.5:
        levels[...] = rng.choice([-1, 1]) * (2 ** (bits - 1) - 1)
    channels = levels.ndim and rng.random() < 0.5
    kind = rng.choice([np.float16, np.float32])
    most = 6e4 if kind == np.float16 else 3.4e38
    scale = np.full(levels.shape[:1] if channels else (), rng.choice([most, -most, 0.0, 1.0, 1e4, 1e-7]), kind)
    mean = np.full(scale.shape, rng.choice([most, -most, 0.0, 1.0]), kind) if rng.random() < 0.5 else None
    return Packed(bits=bits, levels=levels, scale=scale, mean=mean)


def _odd_header(rng: random.Random, message: bytes) -> bytes:
    """The same data under entries that lie: storage, shapes, names; or NaN among the data. The checksum is right."""
    entries, _, data = unframe(message, DEFAULT_LIMITS)
    changed = [*entries]
    held = bytearray(data)
    at = rng.randrange(len(changed))
    entry = changed[at]
    match rng.choice(["storage", "shape", "shape", "name", "double", "order", "nan", "size"]):
        case "storage":
            changed[at] = Entry(
                entry.name, rng.choice([0, 1, 2, 3, 4, 5, 6, 0x7F, 0x80, 0x9F, 0xE0, 0xFF]), entry.shape
            )
        case "shape":
            dims = rng.choice(
                [(2**31, 2**31, 0), (2**62,), (1,) * 8, (1,) * 9, (0,), (), (2**20, 2**20), (2**27 + 1, 0)]
            )
            changed[at] = Entry(entry.name, entry.storage, dims)
        case "name":
            names = ["", "a:b", "__metadata__", "\x1b[31m", "x" * 201, "\n", "\u202e", entry.name + ":scale"]
            changed[at] = Entry(rng.choice(names), entry.storage, entry.shape)
        case "double":
            changed.insert(at, entry)
        case "order":
            rng.shuffle(changed)
        case "nan":
            place = rng.randrange(max(1, len(held) - 4))
            held[place : place + 4] = rng.choice([b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\x7c\0\x7c", b"\0\x7e\0\xfe"])
    if rng.random() < 0.5:  # as many bytes as the entries ask for
        try:
            needed = sum(part.size for part in layout(changed))
        except (IndexError, ValueError):
            needed = len(held)
        held = (held + bytes(max(0, needed - len(held))) if needed < 2**20 else held)[: max(needed, 0)]
    try:
        return frame(changed, [np.frombuffer(bytes(held), np.uint8)], DEFAULT_LIMITS)
    except (ValueError, TensorError, OverflowError):
        return _noise(rng, message)


def _noise(rng: random.Random, body: bytes) -> bytes:
    """Bytes changed; the checksum of a tensor message is made right again, mostly."""
    match rng.choice(["flip", "flip", "cut", "empty", "random", "tail"]):
        case "flip":
            held = bytearray(body)
            for _ in range(rng.choice([1, 1, 5, 50])):
                held[rng.randrange(len(held))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            body = bytes(held)
        case "cut":
            body = body[: rng.randrange(len(body))]
        case "empty":
            return b""
        case "random":
            return rng.randbytes(rng.choice([1, 13, 500]))
        case "tail":
            body += rng.randbytes(rng.choice([1, 100]))
    return body[:-4] + struct.pack("<I", zlib.crc32(body[:-4])) if rng.random() < 0.8 else body


# enrolment


def _resigned(
    rng: random.Random, mutate: Callable[[Node], None], whole: bytes, key: ec.EllipticCurvePrivateKey
) -> bytes:
    """A certificate, or a request for one, after mutation of its contents; mostly signed again by its true key."""
    tree = parse_der(whole)
    signed = rng.random() < 0.75
    if not signed:
        mutate(tree)
        return tree.encoded
    mutate(tree.children[0])
    signature = key.sign(tree.children[0].encoded, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    if len(tree.children) > 2:
        tree.children[2] = Node(0x03, b"\0" + signature)
    return tree.encoded


def _request(rng: random.Random) -> bytes:
    """What a board asks, signed by all three of its keys, with mutants in it."""
    device, signing = world.BOARD, key_of(world.BOARD)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, device)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = builder.sign(world.tls_key, hashes.SHA256(), ecdsa_deterministic=True)
    csr, claim = made.public_bytes(serialization.Encoding.DER), world.claim()
    how = rng.choice(["csr", "csr", "claim", "claim", "both", "message", "bytes"])

    def mutate(node: Node) -> None:
        for _ in range(rng.choice([1, 1, 2, 4])):
            mutate_der(rng, node)

    if how in ("csr", "both"):
        csr = _resigned(rng, mutate, csr, world.tls_key)[:4096]
    if how in ("claim", "both"):
        claim = _resigned(rng, mutate, claim, world.authority_key)[:4096]
    public = signing.public_key()
    proof = world.claim_key.sign(to_prove(FLEET, device, public, csr), ec.ECDSA(hashes.SHA256()))
    message = encode_message(Enrol(device=device, csr=csr, claim=claim, proof=proof))
    if how == "message":
        message = encode_mutant(rng, msgspec.msgpack.decode(message))
    request = public.public_bytes_raw() + _sealed(rng, message, "enrol", device, key=signing)
    if how == "bytes":
        at = rng.randrange(len(request))
        request = rng.choice(
            [request[:at], bytes(32) + request[32:], b"\xff" * 32 + request[32:], request + b"x" * 12_000]
        )
    return request
