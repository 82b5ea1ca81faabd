"""host:port as it is typed."""

import pytest

from core.addresses import is_loopback, parse_address
from core.errors import ConfigError

pytestmark = pytest.mark.light


@pytest.mark.parametrize("text", ["", "host:", "host:port", "host:70000", "::1:9464", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write host:port, such as 127\.0\.0\.1:9464"):
        parse_address(text)


def test_a_port_alone_is_this_machine() -> None:
    assert parse_address("9464") == parse_address(" :9464 ") == ("127.0.0.1", 9464)


@pytest.mark.parametrize(("host", "own"), [("::1", True), ("127.8.9.1", True), ("0.0.0.0", False), ("pi.local", False)])
def test_loopback_is_told_from_the_rest(host: str, own: bool) -> None:
    assert is_loopback(host) is own
