"""The aggregator as a service: the loop around the round engine, with MQTT, clock and disk.

The loop has one thread; the link has its own, and fusion its own process. Every pass takes the messages that have
arrived, makes them durable in one batch, answers them, steps the engine, and publishes changes. If the process is
killed at any point, a new one resumes the round from the journal.

    aggregator/inbox.py                 messages of devices
    aggregator/conductor.py             rounds, and the effects of their actions
    aggregator/downlink/downlink.py     published messages
    aggregator/operator_commands.py     commands of the operator
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from aggregator.attempts import Attempts
from aggregator.conductor import Conductor
from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.device_notes import DeviceNotes
from aggregator.downlink.downlink import Downlink
from aggregator.downlink.log_requests import TAILS
from aggregator.failed_installs import FailedInstalls
from aggregator.inbox import Inbox
from aggregator.intake.access import Gate
from aggregator.intake.broker_check import BrokerCheck, admitting
from aggregator.intake.quarantine import Quarantine
from aggregator.intake.rate_limit import RateLimiter
from aggregator.intake.retained_states import RetainedStates
from aggregator.monitoring.live import Live, Snapshot
from aggregator.monitoring.telemetry import TelemetryFile
from aggregator.monitoring.tracked_rounds import fleet_trackers, follow_fleet
from aggregator.operator_commands import run_command
from aggregator.reload import Reload
from aggregator.rounds.events import BrokerConnected, BrokerLost, Tick
from aggregator.status import only_service, write_status
from aggregator.storage.open_state import open_state
from aggregator.worker.setup import worker_setup
from aggregator.worker.supervisor import WorkerProcess
from core.errors import StorageError
from core.systemd import Heartbeat, notify
from core.versions import versions
from transport.link import Connected, Disconnected, Link, Received
from wire.keys import load_private_key
from wire.topics import aggregator_filters

__all__ = ["Service", "serve"]

log = logging.getLogger("edgestill.aggregator")
WAIT_S = 0.5  # for events; also the delay until a command of another process is noticed
INBOX = 16 * 2**20  # bytes of messages that wait for a pass
DRAIN = 256  # events of one pass
GOODBYE_S = 3.0
ANSWER_EXPIRY_S = 600  # where the broker knows MQTT 5
SWITCH_S = 0.0005  # between threads: with the default the link, which yields at every read, falls behind
LOCK_S = 1.0  # to wait for another process that writes to the journal
PATIENCE_S = 0.5  # after a pass in which the disk has failed


class Service:
    """One fleet's aggregator, from its first event to `stop`."""

    def __init__(
        self,
        config: FleetConfig,
        *,
        until_done: bool = False,
        new_key: bool = False,
        read: Callable[[], FleetConfig] | None = None,
        reloaded: Callable[[FleetConfig], None] = lambda _: None,
    ) -> None:
        """`read` reads the configuration again when that is asked for; `reloaded` is called with each that is used."""
        self.config, self.until_done = config, until_done
        self.reload = Reload(read or (lambda: load_fleet_config(config.path)), reloaded)
        self._start = time.time(), time.monotonic()
        self._stopping = self._connected = False
        self._told = 0.0
        self._connections, self._disk = 0, True
        self._heartbeat = Heartbeat()
        self.live = Live(Snapshot(time=time.monotonic()))
        self.journal, self.blobs = open_state(
            config.state, fleet=config.fleet, key=config.key, new_key=new_key, timeout=LOCK_S
        )
        self.limiter = RateLimiter(config.limits, lambda device: self.inbox.standing(device))
        self.link = _link(config, self.limiter)
        self.quarantine = Quarantine(config.fleet, subscribe=self.link.subscribe, unsubscribe=self.link.unsubscribe)
        self.states = RetainedStates(config.fleet, subscribe=self.link.subscribe, unsubscribe=self.link.unsubscribe)
        self.gate = _gate(config, self.now)
        self.broker = BrokerCheck(config.fleet, self.link, self.states, lambda: self.gate.known)
        self.downlink = self._make_downlink()
        self.worker = WorkerProcess(worker_setup(config), self.link.wake)
        self.conductor = self._make_conductor()
        self.attempts = Attempts(config.state, self.conductor.resync)
        self.notes = DeviceNotes(self.journal, self.now)
        self.installs = FailedInstalls(self.journal, self.now)
        self.telemetry = TelemetryFile(config.state, self.now)
        self.inbox = self._make_inbox()

    def _make_conductor(self) -> Conductor:
        """The conductor of the journal's rounds; devices that were muted stay so."""
        conductor = Conductor(
            self.config,
            journal=self.journal,
            blobs=self.blobs,
            worker=self.worker,
            publisher=self.downlink.publisher,
            clock=self.now,
            muted=self.gate.mute,
        )
        for device, seen in conductor.state.devices.items():
            self.gate.mute(device, seen.muted_until)
        return conductor

    def _make_downlink(self) -> Downlink:
        tls = self.config.broker.tls
        return Downlink(
            self._publish,
            key=load_private_key(self.config.key),
            fleet=self.config.fleet,
            journal=self.journal,
            blobs=self.blobs,
            tails=self.config.state / TAILS,
            ca=None if tls is None else tls.ca,
            learn=self.gate.learn,
            state=self.config.state,
            clock=self.now,
        )

    def _make_inbox(self) -> Inbox:
        return Inbox(
            self.config,
            conductor=self.conductor,
            downlink=self.downlink,
            gate=self.gate,
            limiter=self.limiter,
            notes=self.notes,
            installs=self.installs,
            stale=self.attempts.mark_stale,
            live=self.live,
            telemetry=self.telemetry,
        )

    def _publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        """Messages that are not retained are answers: a device asks again for a lost one, so QoS 0 suffices."""
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

    def hang_up(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Read the configuration again; from a signal handler too."""
        self.reload.ask()
        self.link.wake()

    def run(self) -> None:
        """Serve until `stop`, or until all rounds are done; systemd is told when the loop turns, and that it does."""
        self.link.start()
        try:
            self.conductor.start()
            self.inbox.remember()
            notify("READY=1")
            while not self._stopping:
                self._pass()
                self._heartbeat.beat(time.monotonic())
            notify("STOPPING=1")
        finally:
            self._end()

    def _pass(self) -> None:
        whole = self.attempts.run(
            (
                self._take_events,
                self.inbox.desk.flush,
                self.conductor.fusing.drive,
                self._ask_states,
                self._commands,
                lambda: self.reload.poll(self),
                lambda: self.conductor.feed(Tick(self.now())),
                self._say,
                self.downlink.desired.keep,
                self.downlink.upgrades.keep,
                self.notes.keep,
                self.installs.keep,
                self.telemetry.keep,
                self._watch_floods,
                self._tell_status,
            )
        )
        self._disk = whole
        if self.until_done and self.conductor.state.done and not self.conductor.changed:
            self._stopping = True
        if not whole and not self._stopping:
            time.sleep(PATIENCE_S)

    def _ask_states(self) -> None:
        if self._connected:
            self.broker.poll(self.now())
            self.states.ask(self.conductor.state.unheard, self.now())

    def _say(self) -> None:
        if not self._connected:
            return
        if self.conductor.changed:
            self.conductor.say()
        self.downlink.say()

    def _end(self) -> None:
        with contextlib.suppress(OSError, sqlite3.Error):
            self.inbox.desk.flush()
            self.inbox.desk.uploads.save()
            self.downlink.desired.keep()
            self.downlink.upgrades.keep()
            self.notes.keep(at_once=True)
            self.installs.keep(at_once=True)
            self.telemetry.keep(at_once=True)
        until = time.monotonic() + GOODBYE_S
        while self.link.pending() and time.monotonic() < until:  # the last offers
            time.sleep(0.01)
        self.link.stop()
        self.worker.close()
        self.blobs.close()
        self.journal.close()

    def _take_events(self) -> None:
        for number in range(DRAIN):  # an event is taken only to be handled at once: none is lost if a part fails
            match self.link.next_event(0.0 if number else WAIT_S):
                case None:
                    return
                case Connected():
                    self._connected = True
                    self._connections += 1
                    self.conductor.feed(BrokerConnected(self.now()))
                    self.states.connected(self.now())
                    self.broker.connected(self.now())
                    self.downlink.forget()
                    self.quarantine.forget()
                    self.conductor.changed = True
                    self.inbox.desk.reconnected()
                case Disconnected():
                    self._connected = False
                    self.broker.lost()
                    self.conductor.feed(BrokerLost())
                case Received(topic, _, retained) if self.broker.heard(topic, retained, self.now()):
                    continue
                case Received(topic, payload, retained):
                    with self.limiter.charge(topic):
                        self.inbox.receive(topic, payload, retained)
            if self.inbox.desk.full:
                return

    def _commands(self) -> None:
        for command in self.journal.commands():
            if not self.downlink.run(command, self.now()):
                run_command(command, self.conductor, self.inbox.desk.uploads)

    def _tell_status(self) -> None:
        if self.now() - self._told < 1.0:
            return
        self._told = self.now()
        state = self.conductor.state
        facts: dict[str, Any] = {
            "time": time.time(),
            "connected": self._connected,
            "phase": state.phase.value,
            "round": state.round,
            "done": state.done,
            "stuck": self.conductor.fusing.stuck,
            "uploads": len(self.inbox.desk.uploads),
            "transfers": self.inbox.desk.uploads.progress(),
            "limited": (limited := self._limited()),
        }
        self.live.share(
            Snapshot(
                time=time.monotonic(),
                connected=self._connected,
                phase=state.phase.value,
                disk=self._disk,
                uploads=facts["uploads"],
                limited=len(limited),
                connections=self._connections,
            )
        )
        write_status(self.config.state, facts)

    def _limited(self) -> dict[str, int]:
        """The devices over their budgets, which are logged too."""
        for line in self.limiter.news():
            log.warning("%s", line)
        return self.limiter.limited()

    def _watch_floods(self) -> None:
        """Unsubscribe from flooding devices, so that their messages stay at the broker."""
        if not self.quarantine.due(self.now()):
            return
        for device, count in self.link.dropped().items():
            self.limiter.overflowed(device, count)
        dropped, limited = self.limiter.drops(), self.limiter.limited()
        bad = {device for device in self.gate.known if device in limited or self.gate.muted(device)} if dropped else ()
        self.quarantine.look(dropped, self.gate.known, bad, self.now())


def _link(config: FleetConfig, limiter: RateLimiter) -> Link:
    return Link(
        config.broker,
        client_id=f"edgestill-aggregator-{config.fleet}",
        filters=aggregator_filters(config.fleet),
        inbox=INBOX,
        admit=admitting(config.fleet, limiter.admit),
    )


def _gate(config: FleetConfig, now: Callable[[], float]) -> Gate:
    return Gate(
        config.devices,
        fleet=config.fleet,
        garbage_before_mute=config.limits.garbage_before_mute,
        mute_s=config.limits.mute_s,
        now=now,
    )


@contextlib.contextmanager
def _signals(service: Service) -> Iterator[None]:
    before = {number: signal.signal(number, service.stop) for number in (signal.SIGTERM, signal.SIGINT)}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, service.hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _endpoint(service: Service) -> contextlib.AbstractContextManager[object]:
    """Metrics and health over HTTP, if [monitor] asks for them."""
    config = service.config
    if config.monitor.metrics is None:
        return contextlib.nullcontext()
    from aggregator.monitoring.collector import fleet_registry
    from aggregator.monitoring.endpoint import Endpoint

    registry = fleet_registry(lambda: service.config, service.live, version=versions()["edgestill"], now=service.now)
    return Endpoint(config.monitor.metrics, registry, service.live)


@contextlib.contextmanager
def _trackers(service: Service) -> Iterator[None]:
    """Experiment trackers that follow the journal, if [monitor] asks for them."""
    targets = fleet_trackers(service.config)
    if not targets:
        yield
        return
    with follow_fleet(service.config, targets) as following:
        yield
        following.complete = bool(service.conductor.state.done)


def serve(config: FleetConfig, *, until_done: bool = False, **options: Any) -> None:
    """Run the aggregator until SIGTERM or SIGINT; with `until_done`, until all rounds are done.

    SIGHUP reads the configuration again (aggregator/reload.py). `options` are those of `Service`.
    """
    sys.setswitchinterval(SWITCH_S)
    fleet_trackers(config)  # a missing package is said before anything is made
    with only_service(config.state):
        try:
            service = Service(config, until_done=until_done, **options)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{config.state}: cannot be used: {error}") from error
        with _signals(service), _endpoint(service), _trackers(service):
            service.run()
