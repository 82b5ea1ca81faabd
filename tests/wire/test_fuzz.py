"""Thousands of mutated messages: only our own errors come out of the decoders, and memory stays bounded.

Half of the mutants get their checksum, hash or signature made right again, as an attacker would, so that the checks
behind it are reached; a final assertion counts how many different complaints were heard.
"""

import hashlib
import re
import struct
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import EnvelopeError, TensorError, TransferError, WireError
from wire.chunks import Content, decode_chunk, encode_chunk
from wire.codec import decode_ack, decode_message, encode_message
from wire.envelope import open_envelope, seal
from wire.headers import decode_update, encode_update
from wire.messages import About, Accepted, Hyper, Job, Metrics, Missing, Rejected, State, UpdateHeader
from wire.storage import MemoryStorage
from wire.tensors import Packed, decode, encode
from wire.tensors.frame import DICTIONARY
from wire.transfer import Receiver

pytestmark = pytest.mark.light

MEGABYTE = 2**20
DIGEST = "ab" * 32

# ---- mutations: plain data, so that a failing case shrinks and prints well

PLACES = st.integers(0, 2**16)
MUTATIONS = st.lists(
    st.tuples(st.just("flip"), PLACES, st.integers(0, 7))
    | st.tuples(st.just("byte"), PLACES, st.sampled_from([0, 1, 2, 0x0A, 0x7F, 0x80, 0x90, 0xC0, 0xFE, 0xFF]))
    | st.tuples(st.just("insert"), PLACES, st.binary(min_size=1, max_size=12))
    | st.tuples(st.just("delete"), PLACES, st.integers(1, 12))
    | st.tuples(st.just("cut"), PLACES, st.none())
    | st.tuples(st.just("splice"), PLACES, PLACES),
    min_size=1,
    max_size=4,
)


def mutate(data: bytes, mutations: Sequence[tuple], other: bytes) -> bytes:
    """`data` after the mutations; a splice goes on with the tail of `other`."""
    for kind, place, value in mutations:
        at = place % (len(data) + 1)
        if kind == "flip" and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << value]) + data[at + 1 :]
        elif kind == "byte":
            data = data[:at] + bytes([value]) + data[at + 1 :]
        elif kind == "insert":
            data = data[:at] + value + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + value :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "splice":
            data = data[:at] + other[value % (len(other) + 1) :]
    return data


OFTEN = 1000  # mutants of the tests that always run


def bombard(
    samples: Sequence[bytes],
    decoder: Callable[[bytes], object],
    *,
    mend: Callable[[bytes], bytes],
    error: type[WireError] | tuple[type[WireError], ...],
    times: int,
) -> Counter[str]:
    """Decode `times` mutants of the samples; count the outcomes by complaint, with names and numbers left out."""
    heard: Counter[str] = Counter()
    picks = st.integers(0, len(samples) - 1)

    always = times <= OFTEN  # the same mutants in every run, so that the number of complaints is no matter of luck

    @settings(
        max_examples=times, deadline=None, database=None, derandomize=always, suppress_health_check=list(HealthCheck)
    )
    @given(picks, picks, MUTATIONS, st.booleans())
    def bombardment(one: int, other: int, mutations: list[tuple], mended: bool) -> None:
        mutant = mutate(samples[one], mutations, samples[other])
        mutant = mend(mutant) if mended else mutant
        tracemalloc.start()  # around the decoder only: it would slow Hypothesis twentyfold
        try:
            decoder(mutant)
        except error as exc:
            heard[re.sub(r"'.*?'|\d+|…", "_", str(exc))] += 1
        else:
            heard["accepted"] += 1
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 5 * MEGABYTE

    bombardment()
    assert sum(heard.values()) >= times
    return heard


# ---- tensors


def tensor_samples() -> list[bytes]:
    rng = np.random.default_rng(0)

    def packed(bits: int, shape: tuple[int, ...], *, channels: bool, mean: bool) -> Packed:
        top = max(1, 2 ** (bits - 1) - 1)
        levels = rng.choice(np.array([-1, 1], np.int8), shape) if bits == 1 else rng.integers(-top, top, shape, np.int8)
        scale = np.ones(shape[:1] if channels else (), np.float16)
        return Packed(bits=bits, levels=levels, scale=scale, mean=scale if mean else None)

    plain = {"b": np.arange(3, dtype=np.float32), "i": np.array(7, np.int64), "z": np.zeros((0, 4), np.float16)}
    mixed = {f"extractor.{b}.weight": packed(b, (3, 5), channels=b < 4, mean=b == 1) for b in (1, 2, 4, 8)}
    many = {f"extractor.stage1.{i}.bn1.running_mean": np.full(2, i, np.float16) for i in range(12)}
    return [encode(plain), encode(mixed | plain), encode(many), encode({})]


def mend_tensors(mutant: bytes) -> bytes:
    """The right checksum instead of the last four bytes."""
    return mutant[:-4] + struct.pack("<I", zlib.crc32(mutant[:-4]))


def open_header(message: bytes) -> bytes:
    """The same message with its header stored, not deflated: mutations then hit names and shapes."""
    _, coding, length = struct.unpack_from("<4sBI", message)
    header = message[9 : 9 + length]
    if coding == 1:
        header = zlib.decompressobj(-15, DICTIONARY).decompress(header)
    return mend_tensors(struct.pack("<4sBI", b"EST\x01", 0, len(header)) + header + message[9 + length :])


def check_decoded(data: bytes) -> None:
    """Whatever decodes is in its one form: encoding it again gives a message that decodes to the same."""
    again = encode(decode(data))
    assert encode(decode(again)) == again


@pytest.mark.parametrize("times", [600, pytest.param(3000, marks=pytest.mark.slow)])
def test_mutated_tensor_messages_are_refused_or_sound(times: int):
    samples = tensor_samples()
    samples += [open_header(s) for s in samples]
    heard = bombard(samples, check_decoded, mend=mend_tensors, error=TensorError, times=times)
    assert len(heard) > 15, heard


def test_1000_mutated_headers_of_the_right_length_are_refused_or_sound():
    """The mutant is the header; its length and the checksum are made right, the data section stays as it was."""
    whole = [open_header(s) for s in tensor_samples()]
    lengths = [struct.unpack_from("<I", s, 5)[0] for s in whole]
    headers = [s[9 : 9 + n] for s, n in zip(whole, lengths, strict=True)]
    data = whole[1][9 + lengths[1] :]

    def frame(header: bytes) -> bytes:
        return mend_tensors(struct.pack("<4sBI", b"EST\x01", 0, len(header)) + header + data)

    heard = bombard(headers, lambda h: check_decoded(frame(h)), mend=lambda h: h, error=TensorError, times=1000)
    assert len(heard) > 12, heard


# ---- envelopes, messages, updates, chunks

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def mend_envelope(mutant: bytes) -> bytes:
    body = mutant[:-64]
    return body + KEY.sign(b"edgestill envelope 1\0lab\0" + hashlib.sha256(body).digest())


def test_1000_mutated_envelopes_are_refused_or_sound():
    samples = [
        seal(b"p" * 40, key=KEY, kind="update", sender="pi-07", fleet="lab", round=3),
        seal(b"", key=KEY, kind="state", sender="x" * 48, fleet="lab"),
    ]
    public = KEY.public_key()
    heard = bombard(
        samples,
        lambda data: open_envelope(data, public_key=public, fleet="lab"),
        mend=mend_envelope,
        error=EnvelopeError,
        times=1000,
    )
    assert heard["accepted"] > 10
    assert len(heard) > 8, heard


HEADER = UpdateHeader(
    round=3,
    device="pi-07",
    prototype="cnn:w1",
    update="state",
    num_examples=600,
    label_counts=(60,) * 10,
    base=DIGEST,
    metrics={"train_loss": 0.5},
)
MESSAGES = [
    State(status="online", session=9),
    About(board="pi4", prototype="cnn:w1", precision="w1", label_counts=(1, 2), versions={"numpy": "2"}),
    Job(
        round=1,
        deadline=9.0,
        prototype="cnn:w1",
        update="state",
        hyper=Hyper(batch_size=8, lr=0.1, steps=5),
        model=DIGEST,
    ),
    Accepted(transfer="9f", round=3),
    Rejected(transfer="9f", round=3, reason="late"),
    Missing(transfer="9f", ranges=((0, 1), (4, 9))),
    Metrics(round=3, train_loss=0.5),
    HEADER,
]


def decode_all(data: bytes) -> None:
    """As every type: all must refuse it with our own error, or exactly take it."""
    for kind in map(type, MESSAGES):
        try:
            message = decode_message(data, kind)
        except EnvelopeError as exc:
            refusal = exc
        else:
            assert decode_message(encode_message(message), kind) == message
            break
    else:
        raise refusal
    if isinstance(message, Accepted | Rejected | Missing):
        assert decode_ack(encode_message(message)) == message


def test_700_mutated_messages_are_refused_or_sound():
    samples = [encode_message(m) for m in MESSAGES]
    heard = bombard(samples, decode_all, mend=lambda m: m, error=EnvelopeError, times=700)
    assert heard["accepted"] > 10
    assert len(heard) > 8, heard


def test_400_mutated_updates_are_refused_or_sound():
    samples = [encode_update(HEADER, b"body" * 10)]
    heard = bombard(samples, decode_update, mend=lambda m: m, error=EnvelopeError, times=400)
    assert len(heard) > 5, heard


def mend_chunk(mutant: bytes) -> bytes:
    head, data = mutant[:45], mutant[61:]
    return head + hashlib.sha256(head + data).digest()[:16] + data


def test_1000_mutated_chunks_are_refused_or_sound():
    data = bytes(range(100))
    content = Content(digest=hashlib.sha256(data).hexdigest(), size=100, chunk_size=40)
    samples = [encode_chunk(content, n, data[40 * n : 40 * n + 40]) for n in range(3)]

    def receive(chunk: bytes) -> None:
        decode_chunk(chunk)
        Receiver(content, MemoryStorage(bytearray())).accept(chunk)

    heard = bombard(samples, receive, mend=mend_chunk, error=TransferError, times=1000)
    assert len(heard) > 5, heard


def test_400_mutated_states_of_a_transfer_are_refused_or_sound():
    data = bytes(range(100))
    content = Content(digest=hashlib.sha256(data).hexdigest(), size=100, chunk_size=40)
    receiver = Receiver(content, MemoryStorage(bytearray()))
    receiver.accept(encode_chunk(content, 0, data[:40]))
    receiver.accept(encode_chunk(content, 2, data[80:]))

    def restore(state: bytes) -> None:
        Receiver.restore(state, MemoryStorage(data)).missing()

    heard = bombard([receiver.save()], restore, mend=lambda m: m, error=TransferError, times=400)
    assert len(heard) > 5, heard
