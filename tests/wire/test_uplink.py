"""A chunk on a device's `up` topic is addressed by what it says of itself."""

import pytest

from tests.sender import content_of
from wire.chunks import encode_chunk
from wire.ids import transfer_id
from wire.topics import DeviceTopic, UpdateChunk, parse
from wire.uplink import NO_TRANSFER, addressed

pytestmark = pytest.mark.light

UP = DeviceTopic("lab", "pi-07", "up")


def test_a_chunk_tells_its_transfer_and_number() -> None:
    data = bytes(range(200))
    content = content_of(data, chunk_size=150)
    chunk = encode_chunk(content, 1, data[150:])
    assert addressed(UP, chunk) == UpdateChunk("lab", "pi-07", transfer_id(content.digest), 1)
    assert addressed(parse("edgestill/1/lab/pi-07/up"), chunk) == addressed(UP, chunk)


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x02" * 61, b"\x01" + b"\xff" * 60])
def test_what_is_no_chunk_is_addressed_to_no_transfer(payload: bytes) -> None:
    assert addressed(UP, payload) == UpdateChunk("lab", "pi-07", NO_TRANSFER, 0)


def test_other_topics_stay_as_they_are() -> None:
    for topic in (DeviceTopic("lab", "pi-07", "state"), UpdateChunk("lab", "pi-07", "9f", 3)):
        assert addressed(topic, b"") is topic
