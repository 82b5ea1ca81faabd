"""The aggregator as a service: the loop around the round engine, with MQTT, clock and disk.

One thread does all of this; the link has its own, and fusion a process of its own. Every pass of the loop takes what
has arrived, makes it durable in one batch, answers, lets the engine go on, and says what has changed. Killed at any
point, a new process finds the round in the journal and goes on.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from aggregator.conductor import Conductor
from aggregator.config.fleet import FleetConfig
from aggregator.downlink.device_settings import SET, DesiredSettings
from aggregator.downlink.enrolment import ENROL, Enrolments
from aggregator.downlink.publisher import Publisher
from aggregator.intake.acceptance import Desk
from aggregator.intake.access import Gate
from aggregator.intake.contained import OURS, Complaints, describe
from aggregator.intake.quarantine import Quarantine
from aggregator.intake.rate_limit import RateLimiter, Standing
from aggregator.intake.transfers import Uploads
from aggregator.operator_commands import run_command
from aggregator.rounds.events import AboutHeard, Muted, StateHeard, Stored, Tick
from aggregator.status import only_service, write_status
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import UpdateRow
from aggregator.storage.state_check import RESTORE, check_before_opening, check_state
from aggregator.worker.supervisor import WorkerProcess
from core.errors import ConfigError, DeviceError, EdgestillError, RoundError, StorageError, TopicError
from transport.link import Connected, Disconnected, Link, Received
from wire.keys import load_private_key, public_key_hex
from wire.messages import About, Metrics, Rejected, Reported, State
from wire.refusals import READS_CODES, RefusalReason
from wire.topics import DeviceTopic, ModelChunk, UpdateChunk, aggregator_filters, parse
from wire.uplink import addressed

__all__ = ["Service", "serve"]

log = logging.getLogger("edgestill.aggregator")
WAIT_S = 0.5  # for events; commands of other processes are noticed as late as that
INBOX = 16 * 2**20  # bytes of messages that wait for a pass
DRAIN = 256  # events of one pass
GOODBYE_S = 3.0
ANSWER_EXPIRY_S = 600  # where the broker knows MQTT 5
LIVE = ("chunk", "enrol", "metrics")  # kinds that nobody retains but to have them read again at every start
MOST_EXAMPLES = 2**53
SWITCH_S = 0.0005  # between threads: else the link, which waits for its turn at every read, falls behind a busy service
NOTES_S = 1.0  # between two writes of what devices said of themselves
LOCK_S = 1.0  # to wait for another process that writes to the journal
PATIENCE_S = 0.5  # after a pass in which the disk has failed
COMPLAIN_S = 60.0  # between two equal lines about it


class Service:
    """One fleet's aggregator, from its first event to `stop`."""

    def __init__(self, config: FleetConfig, *, until_done: bool = False, new_key: bool = False) -> None:
        self.config, self.until_done, self._new_key = config, until_done, new_key
        self._start = time.time(), time.monotonic()
        self._stopping = False
        self._connected = False
        self._notes: dict[str, dict[str, Any]] = {}
        self._bad: Counter[str] = Counter()  # messages that were no update, and unusable
        self._complaints = Complaints()
        self._noted = self._told = 0.0
        self._stale = False  # whether a write has failed, so that memory may not be what the journal is
        self._failing = False  # in this pass
        self._complaint = ("", 0.0)  # about the disk, and when it was logged
        key = load_private_key(config.key)
        state, limits = config.state, config.limits
        check_before_opening(state)
        self.journal = Journal(state / "journal.db", timeout=LOCK_S)
        self._claim(config.fleet)
        self.blobs = Blobs(state / "blobs")
        check_state(self.journal, self.blobs, state)
        self.limiter = RateLimiter(limits, self._standing)
        self.link = Link(
            config.broker,
            client_id=f"edgestill-aggregator-{config.fleet}",
            filters=aggregator_filters(config.fleet),
            inbox=INBOX,
            admit=self.limiter.admit,
        )
        self.quarantine = Quarantine(config.fleet, subscribe=self.link.subscribe, unsubscribe=self.link.unsubscribe)
        self.publisher = Publisher(
            self._publish,
            key=key,
            fleet=config.fleet,
            blobs=self.blobs,
            journal=self.journal,
        )
        self.desired = DesiredSettings(self._publish, key=key, fleet=config.fleet, journal=self.journal)
        self.worker = WorkerProcess(worker_setup(config), self.link.wake)
        self.conductor = Conductor(
            config,
            journal=self.journal,
            blobs=self.blobs,
            worker=self.worker,
            publisher=self.publisher,
            clock=self.now,
            muted=lambda device, until: self.gate.mute(device, until),
        )
        self.gate = Gate(
            config.devices,
            fleet=config.fleet,
            garbage_before_mute=limits.garbage_before_mute,
            mute_s=limits.mute_s,
            now=self.now,
        )
        tls = config.broker.tls
        self.enrolments = Enrolments(
            self._publish,
            key=key,
            fleet=config.fleet,
            journal=self.journal,
            ca=None if tls is None else tls.ca,
            learn=self.gate.learn,
        )
        for device, seen in self.conductor.state.devices.items():
            self.gate.mute(device, seen.muted_until)
        self.desk = Desk(
            fleet=config.fleet,
            uploads=Uploads(
                state / "parts",
                max_size=limits.update_bytes,
                per_device=limits.transfers,
                max_bytes=limits.parts_mb * 10**6,
            ),
            blobs=self.blobs,
            journal=self.journal,
            rounds=self.conductor,
            answer=self.publisher.answer,
            garbage=self._garbage,
            stored=self._stored,
            may_begin=self.limiter.begin,
        )

    def _publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        """What is not retained is an answer. One that is lost is asked for again, so it needs no second delivery."""
        if retain:
            return self.link.publish(topic, payload, retain=True)
        return self.link.publish(topic, payload, qos=0, expiry_s=ANSWER_EXPIRY_S)

    def now(self) -> float:
        """Seconds since 1970 by a clock that does not jump while we run."""
        wall, monotonic = self._start
        return wall + time.monotonic() - monotonic

    def stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """End after this pass; from a signal handler too."""
        self._stopping = True
        self.link.wake()

    def run(self) -> None:
        """Serve until told to stop, or until no round is left to do."""
        self.link.start()
        try:
            self.conductor.start()
            while not self._stopping:
                self._pass()
        finally:
            self._end()

    def _pass(self) -> None:
        self._failing = False
        for part in (
            self._take_events,
            self.desk.flush,
            self.conductor.drive_worker,
            self._commands,
            lambda: self.conductor.feed(Tick(self.now())),
            self._say,
            self.desired.keep,
            self._keep_notes,
            self._watch_floods,
            self._tell_status,
        ):
            self._attempt(part)
        if self.until_done and self.conductor.state.done and not self.conductor.changed:
            self._stopping = True
        if self._failing and not self._stopping:
            time.sleep(PATIENCE_S)

    def _attempt(self, part: Callable[[], None]) -> None:
        """Do one part of a pass. What the disk refuses has not happened, and is tried again in the next pass."""
        try:
            if self._stale:
                self.conductor.resync()
                self._stale = False
            part()
        except OURS as error:
            self._stale = True
            self._disk_failed(error)

    def _disk_failed(self, error: Exception) -> None:
        self._failing = True
        text, now = str(error), time.monotonic()
        if text != self._complaint[0] or now - self._complaint[1] > COMPLAIN_S:
            damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
            then = f"the journal is damaged: {RESTORE}" if damaged else "nothing is lost, it is tried again"
            log.error("state folder %s: %s; %s", self.config.state, text, then)
            self._complaint = text, now

    def _say(self) -> None:
        if not self._connected:
            return
        if self.conductor.changed:
            self.conductor.say()
        self.desired.say()
        self.enrolments.say()

    def _end(self) -> None:
        with contextlib.suppress(OSError, sqlite3.Error):
            self.desk.flush()
            self.desk.uploads.save()
            self.desired.keep()
            self._keep_notes(at_once=True)
        until = time.monotonic() + GOODBYE_S
        while self.link.pending() and time.monotonic() < until:  # the last offers
            time.sleep(0.01)
        self.link.stop()
        self.worker.close()
        self.blobs.close()
        self.journal.close()

    # events

    def _take_events(self) -> None:
        for number in range(DRAIN):  # each event is taken only when it will be looked at: none may be left in hand
            match self.link.next_event(0.0 if number else WAIT_S):
                case None:
                    return
                case Connected():
                    self._connected = True
                    self.publisher.forget()
                    self.desired.forget()
                    self.enrolments.forget()
                    self.quarantine.forget()
                    self.conductor.changed = True
                    self.desk.reconnected()
                case Disconnected():
                    self._connected = False
                case Received(topic, payload, retained):
                    with self.limiter.charge(topic):
                        self._received(topic, payload, retained)
            if self.desk.full:
                return

    def _received(self, text: str, payload: bytes, retained: bool = False) -> None:
        """Handle one message. What its handling raises is a refusal of it, unless our own disk is at fault."""
        try:
            topic = addressed(parse(text), payload)
        except TopicError as error:
            log.debug("%s", error)
            return
        if isinstance(topic, ModelChunk):
            return
        kind = "chunk" if isinstance(topic, UpdateChunk) else topic.leaf
        if retained and kind in LIVE:
            log.debug("from %r: %s: retained, not read", topic.device, kind)
            return
        try:
            self._handle(topic, payload)
        except OURS:
            raise
        except EdgestillError as error:
            self._refused(topic.device, kind, str(error))
        except Exception as error:
            log.debug("from %r: %s", topic.device, kind, exc_info=True)
            self._refused(topic.device, kind, describe(error))

    def _refused(self, device: str, kind: str, why: str) -> None:
        if kind != "enrol":
            self._garbage(device, f"{kind}: {why}")
        elif self._complaints.new(device, why):  # anybody may have sent it: the device itself is not muted for it
            log.warning("from %r: %s: %s", device, kind, why)

    def _handle(self, topic: UpdateChunk | DeviceTopic, payload: bytes) -> None:
        if isinstance(topic, UpdateChunk):
            self._chunk(topic, payload)
        elif topic.leaf == "enrol":  # it has no key that is known yet
            revoked = not self._may_speak(topic.device)
            self.enrolments.heard(topic.device, payload, revoked=revoked, now=self.now())
        elif self._may_speak(topic.device):
            self._heard(topic, payload)

    def _chunk(self, topic: UpdateChunk, payload: bytes) -> None:
        key = self.gate.key(topic.device)
        if key is None:
            return
        if not self._may_speak(topic.device):
            number, why = max(1, self.conductor.number), RefusalReason.REVOKED
            answer = Rejected(transfer=topic.transfer, round=number, reason=why.say(), why=why)
            self.publisher.answer(topic.device, answer)
            return
        self.desk.chunk(topic, payload, key)

    def _standing(self, device: str) -> Standing:
        """How much is heard of a device; also asked by the link, on its thread."""
        if self.gate.muted(device):
            return Standing.MUTED
        known = self.gate.knows(device) and self._may_speak(device)
        return Standing.KNOWN if known else Standing.STRANGER

    def _may_speak(self, device: str) -> bool:
        seen = self.conductor.state.devices.get(device)
        return seen is None or not seen.revoked

    def _heard(self, topic: DeviceTopic, payload: bytes) -> None:
        device = topic.device
        match self.gate.open(topic, payload):
            case State(status=status, session=session):
                self.conductor.feed(StateHeard(device, status, session))
                seen = self.conductor.state.devices[device]
                self._note(device, status=seen.status, session=seen.session)
                if status == "online":
                    self.enrolments.online(device)
            case Reported() as reported:
                self.desired.heard(device, reported)
            case Metrics(round=number, problem=problem) if problem:
                if self._complaints.new(device, f"problem: {problem}"):
                    log.warning("device %r: %s%s", device, f"round {number}: " if number else "", problem)
                self.conductor.gave_up(device, number, problem)
            case About() as about:
                examples = _examples(about)
                before = self.conductor.state.devices.get(device)
                if before is None or before.prototype != about.prototype:  # else nothing follows from it
                    self.conductor.feed(AboutHeard(device, about.prototype))
                self.publisher.reads_codes(device, READS_CODES in about.versions.items())
                unknown = about.prototype not in self.config.prototypes
                if unknown and self._complaints.new(device, f"trains {about.prototype}"):
                    log.warning("device %r trains %s, which this fleet does not have", device, about.prototype)
                self._note(device, prototype=about.prototype, board=about.board, examples=examples)

    def _stored(self, row: UpdateRow) -> None:
        self.gate.good(row.device)
        log.debug("update from %r for round %d: %d bytes%s", row.device, row.round, row.size, " (late)" * row.late)
        if row.late:
            return
        try:
            self.conductor.feed(Stored(row.device, row.round))
        except StorageError:
            raise
        except RoundError as error:  # memory is not what the journal is: the journal is right
            log.error("%s; the round is taken from the journal again", error)
            self._stale = True

    def _garbage(self, device: str, why: str) -> None:
        if why:
            if self._complaints.new(device, why):
                log.warning("from %r: %s", device, why)
            self._bad[device] += 1
        until = self.gate.garbage(device)
        if until is not None:
            log.warning("device %r sends only garbage: muted for %.0f s", device, self.config.limits.mute_s)
            self.conductor.feed(Muted(device, until))
            self.desk.uploads.drop_device(device)
            self._note(device, muted_until=until)

    # what else there is to do

    def _commands(self) -> None:
        for command in self.journal.commands():
            if command.verb == SET:
                self.desired.run(command, self.now())
                continue
            if command.verb == ENROL:
                self.enrolments.run(command)
                continue
            run_command(command, self.conductor, self.desk.uploads)

    def _note(self, device: str, **facts: Any) -> None:
        self._notes.setdefault(device, {}).update(facts, seen=self.now())

    def _keep_notes(self, *, at_once: bool = False) -> None:
        """Not at once, and not each on its own: retained messages tell it again."""
        if not (self._notes or self._bad) or (self.now() - self._noted < NOTES_S and not at_once):
            return
        with self.journal.transaction():
            for device, facts in self._notes.items():
                self.journal.note_device(device, **facts)
            for device, count in self._bad.items():
                self.journal.count(device, "refused", count)
        self._notes.clear()
        self._bad.clear()
        self._noted = self.now()

    def _tell_status(self) -> None:
        if self.now() - self._told < 1.0:
            return
        self._told = self.now()
        state = self.conductor.state
        facts = {
            "time": time.time(),
            "connected": self._connected,
            "phase": state.phase.value,
            "round": state.round,
            "done": state.done,
            "uploads": len(self.desk.uploads),
            "limited": self._limited(),
        }
        write_status(self.config.state, facts)

    def _limited(self) -> dict[str, int]:
        """The devices over their budgets, told to the log too."""
        for line in self.limiter.news():
            log.warning("%s", line)
        return self.limiter.limited()

    def _watch_floods(self) -> None:
        """Let the broker keep what is dropped here in masses."""
        if not self.quarantine.due(self.now()):
            return
        for device, count in self.link.dropped().items():
            self.limiter.overflowed(device, count)
        dropped, limited = self.limiter.drops(), self.limiter.limited()
        bad = {device for device in self.gate.known if device in limited or self.gate.muted(device)} if dropped else ()
        self.quarantine.look(dropped, self.gate.known, bad, self.now())

    def _claim(self, fleet: str) -> None:
        """A state folder belongs to one fleet for good."""
        owner = self.journal.get("fleet", fleet)
        if owner != fleet:
            raise ConfigError(
                f"{self.config.state}: belongs to fleet {owner!r}; give fleet {fleet!r} a folder of its own"
            )
        mine = public_key_hex(load_private_key(self.config.key).public_key())
        signer = self.journal.get("key", mine)
        if signer != mine and not self._new_key:
            raise ConfigError(
                f"{self.config.key}: not the key that signed this fleet's models ({signer[:16]}…); put that one back:"
                " devices trust no other. If all of them have the new one, start once with --new-key"
            )
        with self.journal.transaction():
            self.journal.put("fleet", fleet)
            self.journal.put("key", mine)


def _examples(about: About) -> int:
    """All that a device says to have; no more than a header could say, and the journal's integers hold."""
    total = sum(about.label_counts)
    if total > MOST_EXAMPLES:
        raise DeviceError(f"label counts of {total} examples, at most {MOST_EXAMPLES} are believed")
    return total


def worker_setup(config: FleetConfig) -> dict[str, Any]:
    """What the worker process is told first."""
    task = config.task
    return {
        "state": str(config.state),
        "key": str(config.key),
        "fleet": config.fleet,
        "seed": config.seed,
        "input_shape": task.input_shape,
        "classes": task.classes,
        "latent": task.latent,
        "validation": None if task.validation is None else str(task.validation),
        "prototypes": config.prototypes,
        "fusion": config.fusion.to_json(),
    }


@contextlib.contextmanager
def _signals(service: Service) -> Iterator[None]:
    before = {number: signal.signal(number, service.stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve(config: FleetConfig, *, until_done: bool = False, new_key: bool = False) -> None:
    """Run the aggregator until SIGTERM or SIGINT; with `until_done`, until no round is left to do.

    `new_key`: the fleet has been given another signing key.
    """
    sys.setswitchinterval(SWITCH_S)
    with only_service(config.state):
        try:
            service = Service(config, until_done=until_done, new_key=new_key)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{config.state}: cannot be used: {error}") from error
        with _signals(service):
            service.run()
