"""The metrics of a fleet for Prometheus, collected when they are asked for.

Counts come from the journal, so they survive restarts; what the journal does not have comes from `Live`, and begins at
zero with the process, as Prometheus expects of counters. No label is unbounded: devices are labels only in fleets of at
most `device_labels` devices.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.rollout import STAGES
from aggregator.downlink.upgrades import device_software
from aggregator.monitoring.certificates import certificate_ends
from aggregator.monitoring.disk import disk_use
from aggregator.monitoring.live import Live
from aggregator.monitoring.telemetry import read_telemetry
from aggregator.rounds.state import Phase
from aggregator.storage.journal import Journal
from aggregator.storage.rows import DeviceRow, RoundRow

__all__ = ["FleetCollector", "fleet_registry"]

Clock: TypeAlias = Callable[[], float]
VERSIONS = 20  # that are labels of their own: devices say what their version is
#: What boards report: the end of the metric's name, its text, the key, and what makes base units of it.
BOARD: dict[str, tuple[str, str, float]] = {
    "temperature_celsius": ("Of the processor, as the board reports it.", "temperature_c", 1.0),
    "throttled": ("1 while the processor is slowed down.", "throttled", 1.0),
    "undervoltage": ("1 while the power supply is too weak.", "undervoltage", 1.0),
    "load": ("Processes that want to run, mean of one minute.", "load", 1.0),
    "memory_available_bytes": ("Memory that programs may still take.", "memory_mb", 1e6),
    "disk_free_bytes": ("Free space where the agent's state folder is.", "disk_mb", 1e6),
    "battery_ratio": ("Charge of the battery.", "battery", 1.0),
}
STATES = ("online", "offline", "lost", "unknown", "muted", "revoked")


def fleet_registry(config: Callable[[], FleetConfig], live: Live, *, version: str, now: Clock) -> CollectorRegistry:
    """Everything that is served at /metrics: the fleet, with its present configuration, and the process itself."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(config, live, version=version, now=now))
    ProcessCollector(registry=registry)
    return registry


class FleetCollector(Collector):
    """One fleet; `now` is the service's clock, in seconds since 1970."""

    def __init__(self, config: Callable[[], FleetConfig], live: Live, *, version: str, now: Clock) -> None:
        self._current, self._live, self._version, self._now = config, live, version, now
        self._config = config()

    def collect(self) -> Iterator[Metric]:
        """All families, from one read of the journal."""
        self._config = self._current()
        with closing(Journal(self._config.state / "journal.db", read_only=True)) as journal:
            devices = self._devices(journal)
            yield from self._about()
            yield from self._service()
            yield from self._rounds(journal)
            yield from self._fleet(devices)
            yield from self._software(journal)
            yield from self._models(journal)
            yield from self._disk(journal)
        yield from self._by_device(devices)

    def _devices(self, journal: Journal) -> list[DeviceRow]:
        heard = {row.id: row for row in journal.devices()}
        return [*heard.values(), *(DeviceRow(id=name) for name in self._config.devices if name not in heard)]

    def _about(self) -> Iterator[Metric]:
        about = {"version": self._version, "fleet": self._config.fleet, "recipe": self._config.fusion.recipe.name}
        yield InfoMetricFamily("edgestill_build", "Version, fleet and recipe of the aggregator.", value=about)
        ends = GaugeMetricFamily(
            "edgestill_certificate_not_after_timestamp_seconds", "When a certificate ends.", labels=["certificate"]
        )
        for name, end in certificate_ends(self._config.broker.tls).items():
            ends.add_metric([name], end)
        yield ends

    def _service(self) -> Iterator[Metric]:
        shot = self._live.snapshot
        yield _gauge("edgestill_mqtt_connected", "Whether the aggregator is connected to its broker.", shot.connected)
        again = max(shot.connections - 1, 0)
        yield _count("edgestill_mqtt_reconnects", "Connections to the broker after the first.", again)
        yield _gauge("edgestill_transfers_inflight", "Updates that have begun to arrive.", shot.uploads)
        yield _gauge("edgestill_devices_limited", "Devices whose messages are dropped: over budget.", shot.limited)
        usage = shutil.disk_usage(self._config.state)
        yield _gauge("edgestill_state_disk_free_bytes", "Free space where the state folder is.", usage.free)
        yield _gauge("edgestill_state_disk_size_bytes", "Size of the disk where the state folder is.", usage.total)

    def _rounds(self, journal: Journal) -> Iterator[Metric]:
        outcomes = journal.outcomes()
        total = CounterMetricFamily("edgestill_rounds", "Rounds that have ended.", labels=["outcome"])
        for outcome in ("closed", "abandoned"):
            total.add_metric([outcome], outcomes.get(outcome, 0))
        yield total
        phase = GaugeMetricFamily("edgestill_round_phase", "1 for the phase that the service is in.", labels=["phase"])
        for one in Phase:
            phase.add_metric([one.value], float(self._live.snapshot.phase == one.value))
        yield phase
        last = journal.last_round()
        yield _gauge("edgestill_round_current", "Number of the newest round.", last.number if last else 0)
        if last is not None and last.phase in ("open", "fusing"):
            yield from self._open_round(journal, last)
        closed = journal.last_closed()
        if closed is not None and closed.closed is not None:
            yield _gauge(
                "edgestill_round_duration_seconds", "Of the last fused round.", max(closed.closed - closed.opened, 0)
            )
            stages = GaugeMetricFamily("edgestill_fusion_stage_seconds", "Of the last fusion.", labels=["stage"])
            for stage, seconds in journal.report(closed.number).get("seconds", {}).items():
                stages.add_metric([stage], seconds)
            yield stages
            if closed.buffer:
                oldest = max(journal.staleness(closed.number).values(), default=0)
                yield _gauge("edgestill_round_staleness_versions", "Of the oldest update last fused.", oldest)

    def _open_round(self, journal: Journal, row: RoundRow) -> Iterator[Metric]:
        """Of an asynchronous round: its buffer, and the last deadline of those who train."""
        asked = row.buffer or len(journal.invitations(row.number))
        answered = len(journal.buffer()) if row.buffer and row.phase == "open" else journal.count_updates(row.number)
        jobs = journal.jobs("open") if row.buffer else []
        deadline = max((job.deadline for job in jobs), default=row.deadline)
        yield _gauge("edgestill_round_invited", "Devices asked, or updates that a fusion needs.", asked)
        yield _gauge("edgestill_round_answered", "Devices that have answered, or updates there.", answered)
        yield _gauge("edgestill_round_opened_timestamp_seconds", "When the open round began.", row.opened)
        yield _gauge("edgestill_round_deadline_timestamp_seconds", "When the open round ends.", deadline)
        if row.buffer:
            yield _gauge("edgestill_jobs_open", "Devices that train, in asynchronous rounds.", len(jobs))

    def _fleet(self, devices: list[DeviceRow]) -> Iterator[Metric]:
        now = self._now()
        states = Counter(row.state(now) for row in devices)
        found = GaugeMetricFamily("edgestill_devices", "Devices of the fleet.", labels=["state"])
        for state in STATES:
            found.add_metric([state], states[state])
        yield found
        slow = sum(bool(facts.get("throttled")) for facts in self._boards().values())
        yield _gauge("edgestill_devices_throttled", "Devices whose processor is slowed down, as they report.", slow)
        uploads = CounterMetricFamily("edgestill_uploads", "Updates, by what became of them.", labels=["outcome"])
        for outcome in ("accepted", "late", "refused"):
            uploads.add_metric([outcome], sum(getattr(row, outcome) for row in devices))
        yield uploads
        size = CounterMetricFamily(
            "edgestill_upload_bytes", "Accepted updates, since the start of the process.", labels=["precision"]
        )
        for precision, count in sorted(self._live.update_bytes.items()):
            size.add_metric([precision], count)
        yield size

    def _software(self, journal: Journal) -> Iterator[Metric]:
        software = device_software(journal, self._now())
        versions = GaugeMetricFamily(
            "edgestill_devices_by_version", "Devices by the version of edgestill.", labels=["version"]
        )
        counts = Counter(row["version"] for row in software.values() if row["version"])
        for version, count in counts.most_common(VERSIONS):
            versions.add_metric([version], count)
        if rest := counts.total() - sum(count for _, count in counts.most_common(VERSIONS)):
            versions.add_metric(["other"], rest)
        yield versions
        stages = Counter(row.get("upgrade", "") for row in software.values())
        found = GaugeMetricFamily("edgestill_devices_upgrade", "Devices of the last update.", labels=["stage"])
        for stage in STAGES:
            found.add_metric([stage], stages[stage])
        yield found

    def _models(self, journal: Journal) -> Iterator[Metric]:
        accuracy = GaugeMetricFamily(
            "edgestill_prototype_accuracy_ratio",
            "Accuracy of the newest model on [task] validation, as boards run it and with float weights.",
            labels=["prototype", "weights"],
        )
        rounds = GaugeMetricFamily(
            "edgestill_prototype_round", "Round after which the newest model was fused.", labels=["prototype"]
        )
        for name, model in journal.current().items():
            rounds.add_metric([name], model.round)
            for weights, key in (("own", "accuracy"), ("float", "accuracy_float")):
                if key in model.metrics:
                    accuracy.add_metric([name, weights], model.metrics[key])
        yield accuracy
        yield rounds

    def _disk(self, journal: Journal) -> Iterator[Metric]:
        used = GaugeMetricFamily("edgestill_state_bytes", "What the state folder holds.", labels=["kind"])
        for kind in ("models", "updates", "journal"):
            used.add_metric([kind], disk_use(self._config, journal)[kind])
        yield used

    def _by_device(self, devices: list[DeviceRow]) -> Iterator[Metric]:
        few = len(devices) <= self._config.monitor.device_labels
        yield _gauge("edgestill_device_labels_omitted", "1 if there are too many devices for labels.", not few)
        if not few:
            return
        seen = _labelled("edgestill_device_seen_timestamp_seconds", "When a device was last heard of.")
        memory = _labelled("edgestill_device_memory_bytes", "Memory of the agent with its training.")
        seconds = _labelled("edgestill_device_train_seconds", "Duration of the last local training.")
        board = {name: _labelled(f"edgestill_device_{name}", text) for name, (text, _, _) in BOARD.items()}
        telemetry, boards = self._live.telemetry, self._boards()
        for row in devices:
            if row.seen:
                seen.add_metric([row.id], row.seen)
            for name, (_, key, factor) in BOARD.items():
                if (value := boards.get(row.id, {}).get(key)) is not None:
                    board[name].add_metric([row.id], float(value) * factor)
            if (metrics := telemetry.get(row.id)) is None:
                continue
            if metrics.temperature_c is not None and row.id not in boards:  # of an older agent
                board["temperature_celsius"].add_metric([row.id], metrics.temperature_c)
            if metrics.memory_mb is not None:
                memory.add_metric([row.id], metrics.memory_mb * 1e6)
            if metrics.seconds is not None:
                seconds.add_metric([row.id], metrics.seconds)
        yield from (seen, memory, seconds, *board.values())

    def _boards(self) -> dict[str, dict[str, Any]]:
        return read_telemetry(self._config.state, self._now())


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def _count(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=float(value))


def _labelled(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["device"])
