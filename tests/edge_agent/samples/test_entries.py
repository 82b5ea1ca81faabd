"""What samples are told apart by."""

import pytest

from edge_agent.samples.entries import DIGEST_BYTES, digest_bytes

pytestmark = pytest.mark.light


def test_the_hash_is_that_of_the_content_and_stays_what_it_is() -> None:
    assert digest_bytes(b"abc").hex() == "cf4ab791c62b8d2b2109c90275287816"
    assert digest_bytes(memoryview(b"abc")) == digest_bytes(b"abc") != digest_bytes(b"abd")
    assert len(digest_bytes(b"")) == DIGEST_BYTES
