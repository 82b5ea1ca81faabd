"""What a broker announces at a connection, against what edgestill needs. One line each, with a remedy.

Brokers of MQTT 5 announce what they lack; those of 3.1.1 only grant a lower QoS. Whether retained messages are
delivered shows at use (`transport/retained_check.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from paho.mqtt.properties import Properties

__all__ = ["LEAST_PACKET", "lacking", "warnings"]

LEAST_PACKET = 70_000  # bytes: a chunk of 64 KiB with its header, topic and signature
SEE = "see docs/brokers.md"


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
