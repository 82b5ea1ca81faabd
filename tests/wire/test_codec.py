"""Typed messages to bytes and back, and the errors that name a field."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import EnvelopeError
from wire.codec import decode_ack, decode_message, encode_message
from wire.messages import (
    About,
    Accepted,
    DataState,
    Desired,
    Enrol,
    Enrolled,
    Hyper,
    Job,
    Message,
    Metrics,
    Missing,
    ModelHeader,
    Offer,
    Rejected,
    Reported,
    State,
    Task,
    UpdateHeader,
)
from wire.refusals import RefusalReason

pytestmark = pytest.mark.light

DIGEST = "ab" * 32
JOB = Job(
    round=3,
    deadline=1_900_000_000.5,
    prototype="resnet8-gn:w1",
    update="state",
    hyper=Hyper(batch_size=32, lr=0.05, epochs=2, extra={"mu": 0.01}),
    model=DIGEST,
)
HEADER = UpdateHeader(
    round=3,
    device="pi-07",
    prototype="cnn:fp32",
    update="predictor",
    num_examples=600,
    label_counts=(60,) * 10,
    base=DIGEST,
    metrics={"train_loss": 0.25},
)
MODEL = ModelHeader(round=3, prototype="cnn:w1", input_shape=(1, 8, 8), classes=2, latent=32, recipe="fedavg")
EXAMPLES: list[Message] = [
    State(status="lost", session=7),
    About(board="pi4", prototype="cnn:w1", precision="w1", label_counts=(3, 0, 9), versions={"numpy": "2.2.6"}),
    JOB,
    msgspec.structs.replace(JOB, device="pi-07", epoch=1_760_000_000, number=12),
    Offer(round=0, prototype="cnn:w1", model=DIGEST, device="pi-07", epoch=3, number=1),
    Accepted(transfer="9f", round=3),
    Rejected(transfer="9f", round=3, reason="'predictor.weight' is (10, 64), expected (10, 128)"),
    Missing(transfer="9f", ranges=((0, 1), (4, 9))),
    Metrics(round=3, train_loss=0.5, seconds=12.0, temperature_c=61.5, memory_mb=310.0, bytes_up=900),
    Metrics(),
    Desired(device="pi-07", version=1_900_000_000, settings={"train.threads": "2"}),
    Enrol(device="pi-07", csr=b"csr", claim=b"claim", proof=b"proof"),
    Enrolled(device="pi-07", keys=DIGEST, status="approved", certificate=b"certificate"),
    Reported(version=3, status="rolled-back", refused={"agent.fleet": "no"}, reason="out of memory"),
    HEADER,
    MODEL,
    msgspec.structs.replace(MODEL, task=Task(class_names=("cat", "dog"), kind="image", mean=(125.3,), std=(63.0,))),
    msgspec.structs.replace(MODEL, task=Task()),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_comes_back_as_it_was(message):
    assert decode_message(encode_message(message), type(message)) == message


@given(
    st.builds(
        UpdateHeader,
        round=st.integers(1, 2**32 - 1),
        device=st.text("abc0-", min_size=1, max_size=48),
        prototype=st.just("cnn:w1"),
        update=st.sampled_from(["state", "delta", "predictor", "onnx"]),
        num_examples=st.integers(0, 2**53),
        label_counts=st.lists(st.integers(0, 2**53), max_size=20).map(tuple),
        base=st.none() | st.just(DIGEST),
        metrics=st.dictionaries(st.text(max_size=9), st.floats(allow_nan=False, allow_infinity=False), max_size=4),
    )
)
def test_any_valid_update_header_comes_back_as_it_was(header):
    assert decode_message(encode_message(header), UpdateHeader) == header


def test_the_bytes_of_a_message_are_a_messagepack_array_of_tag_and_fields():
    assert encode_message(State(status="online", session=300)) == b"\x93\xa5state\xa6online\xcd\x01\x2c"


def test_the_header_of_a_small_update_takes_140_bytes():
    assert len(encode_message(HEADER)) < 140


@pytest.mark.parametrize(
    "ack",
    [
        Accepted(transfer="t", round=1),
        Rejected(transfer="t", round=1, reason="late"),
        *(Rejected(transfer="t", round=1, reason="text", why=why) for why in RefusalReason),
        Missing(transfer="t", ranges=((0, 2),)),
    ],
)
def test_an_ack_is_told_by_its_tag(ack):
    assert decode_ack(encode_message(ack)) == ack


def test_an_ack_that_is_none_is_refused_and_a_bad_one_names_its_field():
    with pytest.raises(EnvelopeError, match="must be accepted, rejected or missing"):
        decode_ack(encode_message(JOB))
    with pytest.raises(EnvelopeError, match="must be accepted"):
        decode_ack(b"")
    with pytest.raises(EnvelopeError, match=r"Rejected\.reason: Expected `str`"):
        decode_ack(msgspec.msgpack.encode(["rejected", "t", 1, 5]))


def altered(message: Message, path: tuple[int, ...], value: object) -> bytes:
    """The bytes of a message with one element replaced."""
    fields = msgspec.msgpack.decode(encode_message(message))
    inner = fields
    for index in path[:-1]:
        inner = inner[index]
    inner[path[-1]] = value
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ((0,), "state", "Job.tag: Invalid value 'state'"),
        ((1,), 0, "Job.round: Expected `int` >= 1"),
        ((1,), 2**32, "Job.round: Expected `int` <= "),
        ((2,), "soon", "Job.deadline: Expected `float`, got `str`"),
        ((2,), math.inf, "Job.deadline: holds NaN or infinity"),
        ((3,), "resnet8", "Job.prototype: Expected `str` matching"),
        ((3,), "cnn:w1\n", "Job.prototype: Expected `str` matching"),
        ((4,), "gradient", "Job.update: Invalid enum value 'gradient'"),
        ((4,), "delta", "Job.bits: is None with update 'delta'"),
        ((5, 0), -1, "Job.hyper.batch_size: Expected `int` >= 1"),
        ((5, 1), -0.5, "Job.hyper.lr: Expected `float` >= 0"),
        ((5, 2), None, "Hyper.epochs, Hyper.steps: give exactly one"),
        ((5, 7), {"mu": math.nan}, "Hyper.extra: holds NaN"),
        ((5, 7), {"mu": "x"}, "Job.hyper.extra: Expected `float`, got `str`"),
        ((6,), DIGEST[:-1], "Job.model: Expected `str` matching"),
        ((6,), DIGEST.upper(), "Job.model: Expected `str` matching"),
        ((7,), 3, "Job.bits: Invalid enum value 3"),
    ],
)
def test_a_wrong_field_is_named(path, value, text):
    with pytest.raises(EnvelopeError) as caught:
        decode_message(altered(JOB, path, value), Job)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("kind", [Job, Offer])
def test_a_job_of_before_devices_and_epochs_existed_is_read(kind):
    message = JOB if kind is Job else Offer(round=1, prototype="cnn:w1", model=DIGEST)
    fields = msgspec.msgpack.decode(encode_message(message))
    old = decode_message(msgspec.msgpack.encode(fields[:-3]), kind)
    assert (old.device, old.epoch, old.number) == ("", 0, 0)
    assert old.model == DIGEST


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [((9,), "Pi 7", "Job.device: "), ((10,), -1, "Job.epoch: "), ((11,), 2**53 + 1, "Job.number: ")],
)
def test_device_epoch_and_number_are_checked(path, value, text):
    with pytest.raises(EnvelopeError, match=text):
        decode_message(altered(JOB, path, value), Job)


def test_unknown_and_absent_fields_are_refused():
    fields = msgspec.msgpack.decode(encode_message(State(status="online", session=1)))
    with pytest.raises(EnvelopeError, match="at most length"):
        decode_message(msgspec.msgpack.encode([*fields, 1]), State)
    with pytest.raises(EnvelopeError, match="at least length"):
        decode_message(msgspec.msgpack.encode(fields[:-1]), State)


def test_what_is_no_message_is_refused():
    for data in (b"", b"\xc1", b"\x93", b"\x91" * 100_000, b"\x93\xa5state\xa1\xff\x01", encode_message(JOB)[:-1]):
        with pytest.raises(EnvelopeError):
            decode_message(data, State)


def test_a_message_over_the_limit_is_refused_before_it_is_decoded():
    with pytest.raises(EnvelopeError, match="State: message of 131073 bytes, at most 131072"):
        decode_message(bytes(131_073), State)
    with pytest.raises(EnvelopeError, match="at most 5"):
        decode_message(encode_message(State(status="online", session=1)), State, max_bytes=5)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: msgspec.structs.replace(HEADER, num_examples=-1), "UpdateHeader.num_examples: Expected `int` >= 0"),
        (lambda: msgspec.structs.replace(HEADER, device="Pi 7"), "UpdateHeader.device: Expected `str` matching"),
        (lambda: msgspec.structs.replace(HEADER, label_counts=(1, -1)), "UpdateHeader.label_counts: Expected"),
        (lambda: msgspec.structs.replace(HEADER, metrics={"loss": math.nan}), "UpdateHeader.metrics: holds NaN"),
        (lambda: msgspec.structs.replace(HEADER, round=2**70), "UpdateHeader: cannot be sent"),
        (lambda: msgspec.structs.replace(HEADER, base=object()), "UpdateHeader: cannot be sent"),
        (lambda: Missing(transfer="t", ranges=()), "Missing.ranges: Expected `array` of length >= 1"),
        (lambda: Missing(transfer="t", ranges=((3, 3),)), "Missing.ranges: 3 .. 3 is empty"),
        (lambda: Missing(transfer="t", ranges=((3, 4), (4, 5))), "Missing.ranges: 4 .. 5"),
        (lambda: Hyper(batch_size=1, lr=0.1, epochs=1, steps=1), "Hyper.epochs, Hyper.steps"),
        (lambda: msgspec.structs.replace(JOB, bits=1), "Job.bits: is 1 with update 'state'"),
        (
            lambda: About(board="b", prototype="mlp:w1", precision="w1", label_counts=(2**53, 1)),
            "About.label_counts: sum to 9007199254740993, more than a count can be",
        ),
        (lambda: Metrics(train_loss=-math.inf), "Metrics.train_loss: holds NaN or infinity"),
    ],
)
def test_nothing_is_sent_that_nobody_would_accept(make, text):
    with pytest.raises(EnvelopeError) as caught:
        encode_message(make())
    assert str(caught.value).startswith(text)


def test_messages_are_frozen():
    with pytest.raises(AttributeError):
        JOB.round = 4


def test_a_refusal_is_one_printable_line_of_bounded_length() -> None:
    for status in ("two\nlines\x1b[31m", "x" * 5000):
        data = msgspec.msgpack.encode(["state", status, 1])
        with pytest.raises(EnvelopeError, match=r"State.status") as caught:
            decode_message(data, State)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) <= 200


def test_a_model_without_a_task_has_the_bytes_that_older_readers_know():
    older = msgspec.msgpack.encode(("model", 3, "cnn:w1", (1, 8, 8), 2, 32, "fedavg", (), {}))
    assert encode_message(MODEL) == older
    assert decode_message(older, ModelHeader) == MODEL


def test_an_about_with_nothing_to_say_of_its_samples_has_the_bytes_that_older_readers_know():
    about = About(board="pi4", prototype="cnn:w1", precision="w1", label_counts=(3,))
    older = msgspec.msgpack.encode(("about", "pi4", "cnn:w1", "w1", (3,), False, {}))
    assert encode_message(about) == older
    assert decode_message(older, About) == about
    told = msgspec.structs.replace(about, data=DataState(waiting="0 of 20", lacks=("dog",), unknown={"cow": 2}))
    assert decode_message(encode_message(told), About) == told


def test_a_task_that_is_none_names_its_field():
    fields = ["model", 3, "cnn:w1", [1, 8, 8], 2, 32, "fedavg", [], {}]
    with pytest.raises(EnvelopeError, match=r"^ModelHeader\.task"):
        decode_message(msgspec.msgpack.encode([*fields, [["a"], "photo"]]), ModelHeader)
    with pytest.raises(EnvelopeError, match="twice"):
        decode_message(msgspec.msgpack.encode([*fields, [["a", "a"]]]), ModelHeader)
