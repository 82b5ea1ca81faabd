"""Dispatches each message of a device to its handler; an error in one message affects no other."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aggregator.conductor import Conductor
from aggregator.config.fleet import FleetConfig
from aggregator.device_notes import DeviceNotes
from aggregator.downlink.downlink import Downlink
from aggregator.failed_installs import FailedInstalls
from aggregator.intake.acceptance import Desk
from aggregator.intake.access import Gate
from aggregator.intake.contained import OURS, Complaints, describe
from aggregator.intake.rate_limit import RateLimiter, Standing
from aggregator.intake.transfers import Uploads
from aggregator.monitoring.live import Live
from aggregator.monitoring.telemetry import TelemetryFile
from aggregator.rounds.events import AboutHeard, Muted, StateHeard, Stored, Throttled
from aggregator.storage.rows import UpdateRow, data_text
from core.errors import DeviceError, EdgestillError, RoundError, StorageError, TopicError
from wire.board_reports import LogTail, Telemetry
from wire.messages import COMPUTE, About, DataState, Installing, Metrics, Rejected, Reported, State, Upgraded
from wire.refusals import READS_CODES, RefusalReason
from wire.topics import DeviceTopic, ModelChunk, UpdateChunk, parse
from wire.uplink import addressed

__all__ = ["Inbox"]

log = logging.getLogger("edgestill.aggregator")
#: Kinds that honest devices never retain: they would be read again at every start.
LIVE = ("chunk", "enrol", "installing", "metrics", "telemetry", "log")
MOST_EXAMPLES = 2**53


class Inbox:
    """All messages from devices. `stale` is called when the state in memory contradicts the journal."""

    def __init__(
        self,
        config: FleetConfig,
        *,
        conductor: Conductor,
        downlink: Downlink,
        gate: Gate,
        limiter: RateLimiter,
        notes: DeviceNotes,
        installs: FailedInstalls,
        stale: Callable[[], None],
        live: Live,
        telemetry: TelemetryFile,
    ) -> None:
        self._config, self._conductor, self._downlink, self._gate = config, conductor, downlink, gate
        self._notes, self._installs, self._stale, self._live = notes, installs, stale, live
        self._telemetry = telemetry
        self._complaints = Complaints()
        limits = config.limits
        self.desk = Desk(
            fleet=config.fleet,
            uploads=Uploads(
                config.state / "parts",
                max_size=limits.update_bytes,
                per_device=limits.transfers,
                max_bytes=limits.parts_mb * 10**6,
            ),
            blobs=conductor.blobs,
            journal=conductor.journal,
            rounds=conductor.open_round,
            answer=downlink.publisher.answer,
            garbage=self._garbage,
            stored=self._stored,
            may_begin=limiter.begin,
        )

    def use(self, config: FleetConfig) -> None:
        """Another configuration from now on."""
        self._config = config
        limits = config.limits
        self.desk.uploads.use(
            max_size=limits.update_bytes, per_device=limits.transfers, max_bytes=limits.parts_mb * 10**6
        )

    def receive(self, text: str, payload: bytes, retained: bool = False) -> None:
        """Handle one message. An exception refuses that message, unless our own disk has failed."""
        try:
            topic = addressed(parse(text), payload)
        except TopicError as error:
            log.debug("%s", error)
            return
        if isinstance(topic, ModelChunk):
            return
        kind = "chunk" if isinstance(topic, UpdateChunk) else topic.leaf
        if retained and kind in LIVE:
            log.debug("from %r: %s: retained, not read", topic.device, kind, extra={"device": topic.device})
            return
        try:
            self._handle(topic, payload, live=not retained)
        except OURS:
            raise
        except EdgestillError as error:
            self._refused(topic.device, kind, str(error))
        except Exception as error:
            log.debug("from %r: %s", topic.device, kind, exc_info=True, extra={"device": topic.device})
            self._refused(topic.device, kind, describe(error))

    def _refused(self, device: str, kind: str, why: str) -> None:
        if kind != "enrol":
            self._garbage(device, f"{kind}: {why}")
        elif self._complaints.new(device, why):  # anyone can send it: the device is not muted for it
            log.warning("from %r: %s: %s", device, kind, why, extra={"device": device})

    def _handle(self, topic: UpdateChunk | DeviceTopic, payload: bytes, live: bool) -> None:
        if isinstance(topic, UpdateChunk):
            self._chunk(topic, payload)
        elif topic.leaf == "enrol":  # its key is not known yet
            revoked = not self._may_speak(topic.device)
            self._downlink.enrolments.heard(topic.device, payload, revoked=revoked, now=self._conductor.now())
        elif self._may_speak(topic.device):
            self._heard(topic, payload, live)

    def _chunk(self, topic: UpdateChunk, payload: bytes) -> None:
        key = self._gate.key(topic.device)
        if key is None:
            return
        if not self._may_speak(topic.device):
            number, why = max(1, self._conductor.number), RefusalReason.REVOKED
            answer = Rejected(transfer=topic.transfer, round=number, reason=why.say(), why=why)
            self._downlink.publisher.answer(topic.device, answer)
            return
        self.desk.chunk(topic, payload, key)

    def standing(self, device: str) -> Standing:
        """The access class of a device; also called by the link, on its thread."""
        if self._gate.muted(device):
            return Standing.MUTED
        known = self._gate.knows(device) and self._may_speak(device)
        return Standing.KNOWN if known else Standing.STRANGER

    def _may_speak(self, device: str) -> bool:
        seen = self._conductor.state.devices.get(device)
        return seen is None or not seen.revoked

    def _heard(self, topic: DeviceTopic, payload: bytes, live: bool) -> None:
        device, conductor = topic.device, self._conductor
        match self._gate.open(topic, payload):
            case State(status=status, session=session):
                conductor.feed(StateHeard(device, status, session))
                seen = conductor.state.devices[device]
                live = live and status != "lost"  # published by the broker
                self._notes.note(device, live=live, status=seen.status, session=seen.session)
                if status == "online":
                    self._downlink.enrolments.online(device)
                    self._installs.online(device)
            case Installing() as report:
                self._not_installed(device, report)
            case Reported() as reported:
                self._downlink.desired.heard(device, reported)
            case Upgraded() as upgraded:
                self._downlink.upgrades.heard(device, upgraded)
            case Telemetry() as telemetry:
                self._telemetry.heard(device, telemetry)
                self._notes.note(device)
                self._throttled(device, bool(telemetry.throttled))
            case LogTail() as tail:
                self._downlink.log_requests.heard(device, tail, conductor.now())
            case Metrics(problem=None) as metrics:
                self._live.measured(device, metrics)
                self._notes.note(device)
            case Metrics(round=number, problem=problem) if problem:
                if self._complaints.new(device, f"problem: {problem}"):
                    log.warning(
                        "device %r: %s%s",
                        device,
                        f"round {number}: " if number else "",
                        problem,
                        extra={"device": device, "round": number or None},
                    )
                conductor.gave_up(device, number, problem)
            case About() as about:
                self._introduced(device, about, live)

    def remember(self) -> None:
        """What devices have reported before this start."""
        for device, facts in self._telemetry.newest.items():
            if device in self._conductor.state.devices:
                self._throttled(device, bool(facts.get("throttled")))

    def _throttled(self, device: str, throttled: bool) -> None:
        before = self._conductor.state.devices.get(device)
        if (before is not None and before.throttled) != throttled:
            log.info(
                "device %r: its processor is %s",
                device,
                "slowed down" if throttled else "no longer slowed down",
                extra={"device": device},
            )
            self._conductor.feed(Throttled(device, throttled))

    def _introduced(self, device: str, about: About, live: bool) -> None:
        """A device has announced its board, prototype and label counts."""
        examples = _examples(about)
        before = self._conductor.state.devices.get(device)
        data = about.data or DataState()
        waiting = bool(data.waiting)
        if before is None or (before.prototype, before.waiting) != (about.prototype, waiting):  # else nothing follows
            self._conductor.feed(AboutHeard(device, about.prototype, waiting))
        self._downlink.upgrades.introduced(device, about.versions)
        self._downlink.publisher.reads_codes(device, READS_CODES in about.versions.items())
        unknown = about.prototype not in self._config.prototypes
        if unknown and self._complaints.new(device, f"trains {about.prototype}"):
            log.warning(
                "device %r trains %s, which this fleet does not have", device, about.prototype, extra={"device": device}
            )
        told = {"board": about.board, "compute": about.versions.get(COMPUTE, ""), "data": data_text(data)}
        self._notes.note(device, live=live, prototype=about.prototype, examples=examples, **told)

    def _not_installed(self, device: str, report: Installing) -> None:
        """A board tells why its installer has failed; nothing but what is shown of it follows from that."""
        seen = self._conductor.state.devices.get(device)
        online = seen is not None and seen.status == "online"
        if not self._installs.heard(device, report, online=online):
            return
        self._notes.note(device)
        if self._complaints.new(device, f"installing: {report.reason}"):
            log.warning("device %r: installing: %s", device, report.reason, extra={"device": device})

    def _stored(self, row: UpdateRow) -> None:
        self._gate.good(row.device)
        self._notes.note(row.device)
        self._live.accepted(row.prototype, row.size)
        log.debug(
            "update from %r for round %d: %d bytes%s",
            row.device,
            row.round,
            row.size,
            " (late)" * row.late,
            extra={"device": row.device, "round": row.round},
        )
        if row.late:
            return
        try:
            self._conductor.feed(Stored(row.device, row.round, row.job))
        except StorageError:
            raise
        except RoundError as error:  # memory contradicts the journal, which is right
            log.error("%s; the round is taken from the journal again", error)
            self._stale()

    def _garbage(self, device: str, why: str) -> None:
        if why:
            if self._complaints.new(device, why):
                log.warning("from %r: %s", device, why, extra={"device": device})
            self._notes.bad[device] += 1
        until = self._gate.garbage(device)
        if until is not None:
            log.warning(
                "device %r sends only garbage: muted for %.0f s",
                device,
                self._config.limits.mute_s,
                extra={"device": device},
            )
            self._conductor.feed(Muted(device, until))
            number = self._conductor.state.round_of(device)
            self._conductor.gave_up(device, number, "muted: it sends only garbage")
            self.desk.uploads.drop_device(device)
            self._notes.note(device, muted_until=until)


def _examples(about: About) -> int:
    """The number of examples that a device reports; at most what an update's header and the journal's integers hold."""
    total = sum(about.label_counts)
    if total > MOST_EXAMPLES:
        raise DeviceError(f"label counts of {total} examples, at most {MOST_EXAMPLES} are believed")
    return total
