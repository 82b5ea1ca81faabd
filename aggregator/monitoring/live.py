"""The state that a running service shares with its observers: replaced whole once a second, read from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from wire.messages import Metrics

__all__ = ["Live", "Snapshot"]

STALLED_S = 60.0  # a pass of the service takes far less; only a hanging disk or a bug does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One moment of the service."""

    time: float  # monotonic seconds
    connected: bool = False
    phase: str = "starting"
    disk: bool = True  # whether the last pass could write what it had to
    uploads: int = 0  # transfers in flight
    limited: int = 0  # devices over their budgets
    connections: int = 0  # to the broker, since the start


@dataclass(slots=True)
class Live:
    """The newest snapshot, and what was counted since the start."""

    snapshot: Snapshot
    _telemetry: dict[str, Metrics] = field(default_factory=dict)  # the newest of each known device
    _update_bytes: dict[str, int] = field(default_factory=dict)  # accepted, by precision
    _lock: Lock = field(default_factory=Lock)

    def share(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        self.snapshot = snapshot

    def measured(self, device: str, metrics: Metrics) -> None:
        """Telemetry of a known device has arrived."""
        with self._lock:
            self._telemetry[device] = metrics

    def accepted(self, prototype: str, size: int) -> None:
        """An update of `size` bytes was accepted."""
        precision = prototype.rpartition(":")[2]
        with self._lock:
            self._update_bytes[precision] = self._update_bytes.get(precision, 0) + size

    @property
    def telemetry(self) -> Mapping[str, Metrics]:
        """A copy."""
        with self._lock:
            return dict(self._telemetry)

    @property
    def update_bytes(self) -> Mapping[str, int]:
        """A copy."""
        with self._lock:
            return dict(self._update_bytes)

    def unhealthy(self, now: float) -> str:
        """Why the process should be restarted; empty if it is healthy."""
        silent = now - self.snapshot.time
        return f"the service loop has not completed a pass for {silent:.0f} s" if silent > STALLED_S else ""

    def unready(self, now: float) -> str:
        """Why the service cannot do its work now; empty if it can."""
        if reason := self.unhealthy(now):
            return reason
        if not self.snapshot.connected:
            return "no connection to the broker"
        if not self.snapshot.disk:
            return "the state folder cannot be written"
        return "the first models are being made" if self.snapshot.phase == "starting" else ""
