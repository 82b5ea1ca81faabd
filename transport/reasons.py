"""Why a connection failed, or what its broker lacks, in one line with a remedy.

Brokers of MQTT 5 announce what they lack; those of 3.1.1 only grant a lower QoS. Whether retained messages are
delivered shows at use (`transport/retained_check.py`).
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Sequence
from datetime import datetime, timezone

from paho.mqtt.properties import Properties

__all__ = ["LEAST_PACKET", "closed", "explain", "lacking", "refusal", "warnings"]

# OpenSSL's message (in an exception, or in paho's log) -> its meaning here
_TLS = (
    ("certificate required", "the broker wants a client certificate; give 'cert' and 'key' in [broker.tls]"),
    ("handshake failure", "the broker refused the TLS handshake; does it want a client certificate?"),
    ("alert certificate expired", "our client certificate has expired; make a new one"),
    ("alert unknown ca", "the broker does not trust the CA of our client certificate"),
    ("alert bad certificate", "the broker refused our client certificate"),
    ("alert certificate revoked", "our client certificate has been revoked"),
    ("wrong version number", "the broker does not speak TLS on this port; remove [broker.tls] or fix the port"),
    ("record layer failure", "the broker does not speak TLS on this port; remove [broker.tls] or fix the port"),
)
HINT = "check 'host' and 'ca' in [broker]"
NOT_YET_VALID, EXPIRED = 9, 10  # X509_V_ERR_CERT_NOT_YET_VALID and _HAS_EXPIRED of OpenSSL
_REFUSALS = {
    "Bad user name or password": "check 'username' and 'password' in [broker]",
    "Not authorized": "check 'username' and 'password' in [broker]",
    "Session taken over": "another client uses our id",
    "Retain not supported": "jobs and models are retained messages; enable them, see docs/brokers.md",
    "QoS not supported": "jobs need QoS 1; enable it, see docs/brokers.md",
}

LEAST_PACKET = 70_000  # bytes: a chunk of 64 KiB with its header, topic and signature
SEE = "see docs/brokers.md"


def explain(error: BaseException) -> str:
    """One line for an exception."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = (error.verify_message or str(error)).rstrip(".")
        hint = f"this machine's clock says {_now():%Y-%m-%d %H:%M} UTC" if _dated(error) else HINT
        return f"the broker's certificate is not valid: {why}; {hint}"
    if isinstance(error, ssl.SSLError) and (meaning := _of_tls(str(error))):
        return meaning
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is a broker running there?"
    if isinstance(error, socket.gaierror):
        return f"unknown host: {error.strerror or error}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__


def _dated(error: ssl.SSLCertVerificationError) -> bool:
    """Whether only the date is wrong: that of the certificate, or of the clock."""
    return error.verify_code in (NOT_YET_VALID, EXPIRED)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def closed(detail: str, *, answered: bool, tls: bool) -> str:
    """One line for a closed connection; `detail` is paho's log line, if any."""
    if meaning := _of_tls(detail):
        return meaning
    if not answered:
        hint = "does it speak TLS on this port, and take our certificate?" if tls else "does it expect TLS?"
        return f"the broker closed the connection before it answered; {hint}"
    what = re.search(r"\[Errno \d+\] (.+)", detail)
    return what[1].lower() if what else "the broker closed the connection"


def refusal(code: object) -> str:
    """One line for a reason code of the broker."""
    name = str(code)
    hint = _REFUSALS.get(name)
    return f"the broker says: {name}" + (f"; {hint}" if hint else "")


def lacking(properties: Properties | None, filters: Sequence[str]) -> str:
    """Why this broker cannot be used with these subscriptions, or an empty string."""
    if not getattr(properties, "RetainAvailable", 1):
        return f"the broker keeps no retained messages, which jobs and models need; enable them, {SEE}"
    if getattr(properties, "MaximumQoS", 2) < 1:
        return f"the broker offers QoS 0 only, and jobs need QoS 1; enable it, {SEE}"
    wildcards = any("+" in pattern or "#" in pattern for pattern in filters)
    if wildcards and not getattr(properties, "WildcardSubscriptionAvailable", 1):
        return f"the broker offers no subscriptions with wildcards, which the aggregator needs; enable them, {SEE}"
    return ""


def warnings(packet: int, granted: Sequence[int]) -> list[str]:
    """What works worse on a broker with this limit of packets and these QoS of the first subscriptions."""
    lines = []
    if packet < LEAST_PACKET:
        lines.append(f"it takes packets of {packet:,} bytes at most, chunks of models need {LEAST_PACKET:,}; raise it")
    if any(qos == 0 for qos in granted):
        lines.append("it delivers with QoS 0, without acknowledgements: messages can be lost and are repeated late")
    return lines


def _of_tls(text: str) -> str | None:
    text = text.lower().replace("_", " ")  # OpenSSL says TLSV1_ALERT_UNKNOWN_CA or tlsv1 alert unknown ca
    return next((meaning for needle, meaning in _TLS if needle in text), None)
