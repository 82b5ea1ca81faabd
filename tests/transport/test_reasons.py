"""Why a connection failed, in one line."""

import errno
import os
import socket
import ssl
from datetime import datetime, timezone

import pytest

from transport.reasons import closed, explain, refusal

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused; is a broker running there?"),
        (socket.gaierror(-2, "Name or service not known"), "unknown host: Name or service not known"),
        (TimeoutError("timed out"), "no answer in time"),
        (OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)), "network is unreachable"),
        (ValueError("a\nb"), "a b"),
        (ValueError(), "ValueError"),
        (
            ssl.SSLError(1, "[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] ssl/tls alert certificate expired (_ssl.c:1)"),
            "our client certificate has expired; make a new one",
        ),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"),
            "the broker does not speak TLS on this port; remove [broker.tls] or fix the port",
        ),
    ],
)
def test_an_error_is_explained(error: BaseException, line: str) -> None:
    assert explain(error) == line


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (9, "certificate is not yet valid", "this machine's clock says 1980-01-06 00:00 UTC"),
        (10, "certificate has expired", "this machine's clock says 1980-01-06 00:00 UTC"),
        (62, "Hostname mismatch.", "check 'host' and 'ca' in [broker]"),
        (20, "unable to get local issuer certificate", "check 'host' and 'ca' in [broker]"),
    ],
)
def test_a_wrong_clock_is_not_told_as_a_wrong_host(
    code: int, message: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.reasons._now", lambda: datetime(1980, 1, 6, tzinfo=timezone.utc))
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    assert explain(error) == f"the broker's certificate is not valid: {message.rstrip('.')}; {hint}"


def test_a_refusal_by_the_broker_is_quoted_with_advice() -> None:
    assert refusal("Not authorized") == "the broker says: Not authorized; check 'username' and 'password' in [broker]"
    assert refusal("Server busy") == "the broker says: Server busy"


@pytest.mark.parametrize(
    ("detail", "answered", "tls", "line"),
    [
        ("", True, False, "the broker closed the connection"),
        ("failed to receive on socket: [Errno 104] Connection reset by peer", True, False, "connection reset by peer"),
        ("", False, False, "the broker closed the connection before it answered; does it expect TLS?"),
        (
            "",
            False,
            True,
            "the broker closed the connection before it answered; does it speak TLS on this port, "
            "and take our certificate?",
        ),
        (
            "failed to receive on socket: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required",
            False,
            True,
            "the broker wants a client certificate; give 'cert' and 'key' in [broker.tls]",
        ),
    ],
)
def test_a_closed_connection_is_explained_by_what_came_before(
    detail: str, answered: bool, tls: bool, line: str
) -> None:
    assert closed(detail, answered=answered, tls=tls) == line
