"""An update: header, then body."""

import numpy as np
import pytest

from core.errors import EnvelopeError
from wire.codec import decode_instruction, encode_message
from wire.envelope import seal
from wire.headers import decode_model, decode_update, encode_model, encode_update
from wire.keys import generate_key
from wire.messages import ModelHeader, Offer, UpdateHeader
from wire.tensors import decode, encode

pytestmark = pytest.mark.light

HEADER = UpdateHeader(
    round=12,
    device="pi-07",
    prototype="cnn:fp32",
    update="predictor",
    num_examples=600,
    label_counts=(60,) * 10,
    base="ab" * 32,
    metrics={"train_loss": 0.25},
)
#: The predictor of the FedGen CNN: Linear(32, 10).
PREDICTOR = {
    "predictor.weight": np.linspace(-1, 1, 320, dtype=np.float16).reshape(10, 32),
    "predictor.bias": np.zeros(10, np.float16),
}


def test_header_and_body_come_back():
    header, body = decode_update(encode_update(HEADER, b"body"))
    assert header == HEADER
    assert body == b"body"
    assert decode_update(encode_update(HEADER, b""))[1] == b""


def test_a_predictor_update_takes_under_a_kilobyte_signed():
    """660 bytes of it are the 330 float16 values themselves."""
    payload = encode_update(HEADER, encode(PREDICTOR))
    sealed = seal(payload, key=generate_key(), kind="update", sender="pi-07", fleet="lab", round=12)
    assert len(sealed) < 950
    assert decode(decode_update(payload)[1])["predictor.bias"].tolist() == [0] * 10


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "too short"),
        (b"\x01", "too short"),
        (b"\x05\x00abc", "header of 5 bytes does not fit 5 bytes"),
        (b"\x01\x00\xc1body", "UpdateHeader: "),
        (b"\x00\x00", "UpdateHeader: "),
    ],
)
def test_a_malformed_update_is_refused(data, text):
    with pytest.raises(EnvelopeError, match=text):
        decode_update(data)


def test_a_header_that_its_length_cannot_tell_is_refused():
    header = UpdateHeader(
        round=1,
        device="pi",
        prototype="cnn:w1",
        update="state",
        num_examples=1,
        label_counts=(2**40,) * 9000,
        base=None,
    )
    with pytest.raises(EnvelopeError, match="'pi': header of 81"):
        encode_update(header, b"")


def test_a_published_model_comes_back_with_its_lineage() -> None:
    header = ModelHeader(
        round=3,
        prototype="cnn:w1",
        input_shape=(1, 8, 8),
        classes=10,
        latent=32,
        recipe="fedavg",
        parents=("a" * 64, "b" * 64),
        metrics={"accuracy": 0.9},
    )
    assert decode_model(encode_model(header, b"tensors")) == (header, b"tensors")
    with pytest.raises(EnvelopeError):
        decode_update(encode_model(header, b"tensors"))


def test_a_job_topic_holds_a_job_or_an_offer() -> None:
    offer = Offer(round=0, prototype="cnn:w1", model="c" * 64)
    assert decode_instruction(encode_message(offer)) == offer
    with pytest.raises(EnvelopeError, match="Job"):
        decode_instruction(b"")
