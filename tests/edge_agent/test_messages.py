"""What an agent says and hears: only the aggregator is believed."""

import pytest

from core.errors import EnvelopeError, SignatureError
from edge_agent.messages import MAX_SMALL, Mail
from edge_agent.protocol.events import Answered, Instructed
from wire.codec import encode_message
from wire.envelope import open_envelope, seal
from wire.keys import generate_key
from wire.messages import Accepted, Hyper, Job, Metrics, Offer, State

pytestmark = pytest.mark.light

AGGREGATOR, DEVICE = generate_key(), generate_key()
JOB = Job(
    round=1,
    deadline=1060.0,
    prototype="cnn:w1",
    update="state",
    hyper=Hyper(batch_size=1, lr=0.1, steps=1),
    model="a" * 64,
)


def mail(now: float = 1000.0) -> Mail:
    return Mail("f", "pi-1", key=DEVICE, aggregator=AGGREGATOR.public_key(), wall_clock=lambda: now)


def sealed(message, kind: str, *, key=AGGREGATOR, sender: str = "aggregator", fleet: str = "f") -> bytes:
    return seal(encode_message(message), key=key, kind=kind, sender=sender, fleet=fleet)


def test_a_job_an_offer_and_nothing_are_read() -> None:
    assert mail().read_job(sealed(JOB, "job")) == Instructed(JOB, 60.0)
    assert mail(now=0.0).read_job(sealed(JOB, "job")) == Instructed(JOB, 1060.0)
    offer = Offer(round=0, prototype="cnn:w1", model="b" * 64)
    assert mail().read_job(sealed(offer, "job")) == Instructed(offer)
    assert mail().read_job(b"") == Instructed(None)


def test_a_board_whose_clock_says_1970_has_no_deadline() -> None:
    job = Job(**{name: getattr(JOB, name) for name in JOB.__struct_fields__} | {"deadline": 1.8e9})
    assert mail(now=12.0).read_job(sealed(job, "job")).seconds_left is None


def test_an_answer_is_read() -> None:
    accepted = Accepted(transfer="t", round=1)
    assert mail().read_ack(sealed(accepted, "ack")) == Answered(accepted)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (sealed(JOB, "job", key=DEVICE), SignatureError),
        (sealed(JOB, "job", fleet="other"), SignatureError),
        (sealed(JOB, "job", sender="pi-2"), EnvelopeError),
        (sealed(JOB, "ack"), EnvelopeError),
        (sealed(Accepted(transfer="t", round=1), "job"), EnvelopeError),
        (b"x", EnvelopeError),
        (b"x" * (MAX_SMALL + 1), EnvelopeError),
    ],
)
def test_what_the_aggregator_did_not_say_is_refused(payload: bytes, error: type) -> None:
    with pytest.raises(error):
        mail().read_job(payload)


def test_what_the_device_says_is_signed_and_on_its_own_topics() -> None:
    topic, payload = mail().state(State(status="online", session=3))
    assert topic == "edgestill/1/f/pi-1/state"
    envelope = open_envelope(payload, public_key=DEVICE.public_key(), fleet="f", sender="pi-1", kinds=("state",))
    assert envelope.payload == encode_message(State(status="online", session=3))
    topic, payload = mail().metrics(Metrics(round=7))
    assert topic.endswith("/metrics")
    assert open_envelope(payload, public_key=DEVICE.public_key(), fleet="f").round == 7


def test_chunks_travel_on_exact_topics() -> None:
    assert mail().topic("up") == "edgestill/1/f/pi-1/up"
    assert mail().model_topics("a" * 64, (0, 2))[1] == f"edgestill/1/f/all/model/{'a' * 64}/2"


def test_the_devices_own_state_is_read_and_nobody_elses() -> None:
    lost = State(status="lost", session=3)
    assert mail().read_state(mail().state(lost)[1]) == lost
    with pytest.raises(SignatureError):
        mail().read_state(sealed(lost, "state", sender="pi-1"))
