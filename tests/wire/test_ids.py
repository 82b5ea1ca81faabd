"""Ids and digests: what each may look like, and the transfer that a digest names."""

import pytest

from core.errors import TopicError
from wire.ids import check_device, check_digest, check_id, digest_of, transfer_id

pytestmark = pytest.mark.light


@pytest.mark.parametrize("value", ["a", "pi-07", "0", "-", "a" * 48])
def test_an_id_is_1_to_48_of_lowercase_digits_and_hyphens(value: str) -> None:
    check_id(value, "fleet")


@pytest.mark.parametrize("value", ["", "a" * 49, "Pi", "pi_7", "pi/7", "+", "#", "é", "pi\n", "٣", None, 7, b"pi"])
def test_other_ids_are_refused_by_what_they_are_for(value: str) -> None:
    with pytest.raises(TopicError, match=r"^fleet .*: an id is 1 to 48"):
        check_id(value, "fleet")


def test_a_refused_id_is_quoted_in_short() -> None:
    with pytest.raises(TopicError) as caught:
        check_id("x" * 10_000, "device")
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("value", ["all", "aggregator"])
def test_a_device_has_no_reserved_id(value: str) -> None:
    check_id(value, "device")
    with pytest.raises(TopicError, match="reserved"):
        check_device(value)


@pytest.mark.parametrize("value", ["ab" * 31, "AB" * 32, "ab" * 32 + "\n", "gg" * 32, None])
def test_a_digest_has_one_spelling(value: str) -> None:
    check_digest("ab" * 32)
    with pytest.raises(TopicError, match="64 lowercase hex digits"):
        check_digest(value)


def test_a_digest_is_sha256_and_names_the_transfer() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_of(b"") == digest_of([]) == empty
    assert digest_of(b"ab") == digest_of([b"a", memoryview(b"b")])
    assert transfer_id(empty) == empty[:32]
    with pytest.raises(TopicError, match="64 lowercase hex digits"):
        transfer_id("abc")
