"""What the service shares, and whether it is well."""

import pytest

from aggregator.monitoring.live import STALLED_S, Live, Snapshot
from wire.messages import Metrics

pytestmark = pytest.mark.light


def test_health_is_a_loop_that_turns_and_readiness_a_service_that_can_work() -> None:
    live = Live(Snapshot(time=100.0))
    assert (live.unhealthy(101.0), live.unready(101.0)) == ("", "no connection to the broker")
    live.share(Snapshot(time=101.0, connected=True))
    assert live.unready(102.0) == "the first models are being made"
    live.share(Snapshot(time=102.0, connected=True, phase="waiting", disk=False))
    assert live.unready(103.0) == "the state folder cannot be written"
    live.share(Snapshot(time=103.0, connected=True, phase="waiting"))
    assert (live.unhealthy(104.0), live.unready(104.0)) == ("", "")
    late = 103.0 + STALLED_S + 1
    assert live.unhealthy(late) == live.unready(late) == "the service loop has not completed a pass for 61 s"


def test_counts_and_telemetry_are_copies() -> None:
    live = Live(Snapshot(time=0.0))
    live.accepted("cnn:w1", 100)
    live.accepted("mlp:w1", 20)
    live.accepted("cnn:fp32", 3)
    live.measured("pi-0", Metrics(round=1, temperature_c=40.0))
    live.measured("pi-0", Metrics(round=2, temperature_c=50.0))
    bytes_before, telemetry_before = live.update_bytes, live.telemetry
    live.accepted("cnn:w1", 1)
    live.measured("pi-1", Metrics())
    assert dict(bytes_before) == {"w1": 120, "fp32": 3}
    assert {name: m.temperature_c for name, m in telemetry_before.items()} == {"pi-0": 50.0}
