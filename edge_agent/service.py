"""The agent as a process: link, clock, disk and training child around `edge_agent/protocol/agent.py`. Imports no torch.

One thread does everything; the link and a running child have helpers that only put into queues. Whatever the protocol
decides is done in its order, and what comes of it (`Fetched`, `TrainingDone`, ...) is handed back as an event.

    edge_agent/trainings.py     the training child, and what it leaves
    edge_agent/reports.py       what the agent tells of itself
    edge_agent/predictions.py   requests for predictions, if the device answers them
    edge_agent/upgrades.py      other versions of edgestill
"""

from __future__ import annotations

import errno
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from core.crashpoints import reach
from core.errors import TransportError, WireError
from core.logs import setup_logging
from core.newest_lines import NewestLines
from core.systemd import Heartbeat, notify
from edge_agent.child.sample_watch import SampleWatch
from edge_agent.child.supervisor import Child, Ended
from edge_agent.config import AgentConfig
from edge_agent.faults import Nonsense, tell_fault
from edge_agent.host.telemetry import board_state
from edge_agent.messages import Mail
from edge_agent.predictions import Predictions
from edge_agent.protocol.agent import Agent
from edge_agent.protocol.events import (
    Action,
    Announce,
    CheckModel,
    Connected,
    Disconnected,
    Event,
    Fetched,
    Follow,
    Look,
    Report,
    Resumed,
    Say,
    SendChunk,
    Settle,
    StartTraining,
    StopTraining,
    Subscribe,
    Tick,
    TrainingDone,
    TrainingFailed,
    Unsubscribe,
)
from edge_agent.remote_settings.trial import Settings
from edge_agent.reports import Reports
from edge_agent.samples.spec import spec_of
from edge_agent.state.following import Following
from edge_agent.state.published import Published
from edge_agent.state.store import Store
from edge_agent.telemetry import TelemetryReports
from edge_agent.trainings import Trainings
from edge_agent.upgrades import Upgrades
from transport import link as transport
from transport.retained_check import Delivery, RetainedCheck
from wire.keys import load_private_key, public_key_hex
from wire.messages import Job, Offer, State
from wire.topics import DeviceTopic, ModelChunk, agent_filters, parse

__all__ = ["Service"]

log = logging.getLogger("edgestill.agent")
IDLE_S = 5.0  # nothing to do: look around this often all the same
BUSY_S = 1.0  # with a child or a helper to watch
FAULT_S = 1.0  # after a fault of ours that may come again at once


class Service:
    """One agent; `run` until `stop`. `make_child` starts what trains: `Child`, or another with its methods."""

    def __init__(self, config: AgentConfig, *, make_child: Callable[..., Child] = Child) -> None:
        self.config = config
        aggregator = config.aggregator_key()
        key = load_private_key(config.private_key)
        self._mail = Mail(config.fleet, config.device, key=key, aggregator=aggregator, wall_clock=time.time)
        self.store = Store(config.state_dir, prototype=config.prototype, cache_mb=config.cache_mb)
        source = spec_of(config.data, config.train.memory_mb)
        self._samples = SampleWatch(source, config.state_dir, config.data.refresh_s)
        survey = self._samples.wait()
        self._settings = Settings(config, config.state_dir)
        self._use_settings()
        self._session = self.store.next_session()
        self._agent = self._make_agent()
        self._link = transport.Link(
            config.broker,
            client_id=f"edgestill-{config.fleet}-{config.device}",
            filters=agent_filters(config.fleet, config.device),
            will=self._mail.state(State(status="lost", session=self._session)),
        )
        self._broker = RetainedCheck(self._mail.topic("state"), subscribe=self._link.subscribe)
        self._upgrades = Upgrades(config.upgrades, config.state_dir, mail=self._mail, link=self._link)
        self._reports = Reports(self._mail, self._link, self._session, self._upgrades.announced)
        self._reports.samples(survey, config.data)
        self._telemetry = TelemetryReports(config.telemetry_s, lambda: board_state(config.state_dir))
        self._log = NewestLines(config.log_lines)
        self._trainings = Trainings(
            self.store, aggregator=public_key_hex(aggregator), make_child=make_child, wake=self._link.wake
        )
        self._following = Following(self.store)
        self._published = Published(config.state_dir, config.publish)
        rate = config.predict.per_minute
        self._predictions = Predictions(config.state_dir, per_minute=rate, wake=self._link.wake)
        self._events: deque[Event] = deque()
        self._nonsense = Nonsense()
        self._stopping = False
        self._heartbeat = Heartbeat()

    def _make_agent(self) -> Agent:
        """The protocol's state machine, from what the state folder has."""
        return Agent(
            self.config.prototype,
            device=self.config.device,
            newest=self.store.newest,
            finished=self.store.finished(),
            outbox=self.store.outbox(),
            taken=self.store.taken,
        )

    def run(self) -> int:
        """Serve until `stop`; 0."""
        self._log.attach()
        log.info("%s of %s, session %d: starting", self.config.device, self.config.fleet, self._session)
        for upload in self._agent.uploads.values():
            log.info(
                "round %d: an update waits in the outbox", upload.spooled.round, extra={"round": upload.spooled.round}
            )
        reach("agent-started")
        self._link.start()
        notify("READY=1")
        try:
            while not self._stopping:
                try:
                    self._turn()
                except Exception as error:  # a fault of ours: no message and no disk may end the agent
                    tell_fault("a turn of the agent", error)
                    time.sleep(FAULT_S)
        finally:
            self._end()
        return 0

    def stop(self) -> None:
        """End `run` soon; from any thread, and from a signal handler."""
        self._stopping = True
        self._link.wake()

    # ---- the loop

    def _turn(self) -> None:
        event = self._link.next_event(self._patience())
        self._feed(Tick(time.monotonic()))
        match event:
            case transport.Connected():
                log.info("connected to %s", self.config.broker)
                notify(f"STATUS=connected to {self.config.broker}")  # `edgestill push` waits for this word
                self._feed(Connected())
                self._settings_connected()
                self._link.subscribe([self._mail.topic("ask")])
                self._telemetry.again()
                self._upgrades.connected()
                if self.config.predict.mqtt:
                    self._link.subscribe([self._mail.topic("predict")])
            case transport.Disconnected():
                notify("STATUS=looking for the broker")
                self._feed(Disconnected())
                self._upgrades.disconnected()
                self._broker.stop()
            case transport.Received(topic, payload, retained):
                self._broker.heard(topic, retained, time.monotonic())
                self._reports.bytes_down += len(payload)
                self._receive(topic, payload, retained)
        self._watch()
        self._check_broker(time.monotonic())
        self._model_out(time.monotonic())
        self._try_again()
        self._tell_progress(time.monotonic())
        self._heartbeat.beat(time.monotonic())

    def _check_broker(self, now: float) -> None:
        """A line in the log if jobs may never arrive."""
        if self._broker.poll(now) is Delivery.NONE:
            log.warning("broker %s sends retained messages %s", self.config.broker, Delivery.NONE.value)

    def _try_again(self) -> None:
        """What could not be done when it was due: a full disk, a helper that was killed."""
        try:
            self._following.retry(time.monotonic())
            self._upgrades.poll(time.monotonic())
        except OSError as error:
            self._disk_trouble(error)
        survey = self._samples.poll(time.monotonic())
        if self._reports.samples(survey, self.config.data) and self._agent.online:
            self._reports.announce(self.config)

    def _tell_progress(self, now: float) -> None:
        """The stage of the work and the state of the board, if they are due."""
        if not self._agent.online:
            return
        progress = self._agent.progress
        if progress.stage == "training":
            done, total = self._trainings.progress
            progress = replace(progress, done=done, total=total)
        if (telemetry := self._telemetry.poll(progress, now)) is not None:
            self._reports.telemetry(telemetry)

    def _model_out(self, now: float) -> None:
        """The board's model for applications: its published copy, and answers to requests."""
        self._published.poll(now)
        for answer in self._predictions.poll(now):
            try:
                self._link.publish(self._mail.topic("predicted"), answer, qos=0)
            except TransportError as error:
                log.error("%s", error)

    def _patience(self) -> float:
        now = time.monotonic()
        busy = self._trainings.busy or self._samples.busy or self._predictions.busy
        wait = min(self._agent.due - now, self._upgrades.due - now, BUSY_S if busy else IDLE_S)
        if self._agent.online:
            wait = min(wait, self._telemetry.due - now)
        return max(min(wait, self._heartbeat.due - now), 0.0)

    def _end(self) -> None:
        notify("STOPPING=1")
        self._samples.kill()
        self._trainings.kill()
        self._predictions.kill()
        self._link.stop([self._mail.state(State(status="offline", session=self._session))])
        self.store.close()
        log.info("stopped")
        self._log.detach()

    def _receive(self, topic: str, payload: bytes, retained: bool = False) -> None:
        """A message; one that makes no sense is logged and forgotten."""
        fleet, device = self.config.fleet, self.config.device
        try:
            match parse(topic):  # the names are compared: some brokers hand out what nobody subscribed to
                case DeviceTopic(of, to, "job") if (of, to) == (fleet, device):
                    instructed = self._mail.read_job(payload)
                    if instructed.instruction is not None:
                        reach("agent-job-received")
                    self._feed(instructed)
                case DeviceTopic(of, to, "ack") if (of, to) == (fleet, device):
                    self._feed(self._mail.read_ack(payload))
                case DeviceTopic(of, to, "state") if (of, to) == (fleet, device) and payload:
                    said = self._mail.read_state(payload)
                    self._reports.contradict(said)
                    if (said.status, said.session) == ("online", self._session):
                        self._upgrades.heard_self()
                        if not retained:
                            self._broker.begin(time.monotonic())
                case DeviceTopic(of, to, "upgrade") if (of, to) == (fleet, device):
                    self._upgrades.offered(payload)
                case ModelChunk(_, digest, _) if digest in self._upgrades.needed and payload:
                    self._upgrades.chunk(digest, payload)
                case DeviceTopic(of, to, "desired") if (of, to) == (fleet, device) and payload:
                    if self._settings.take(self._mail.read_desired(payload)):
                        self._use_settings()
                        self._report_settings()
                case DeviceTopic(of, to, "ask") if (of, to) == (fleet, device):
                    if not retained:  # a request of now
                        self._reports.log_tail(self._mail.read_ask(payload), self._log)
                case DeviceTopic(of, to, "predict") if (of, to) == (fleet, device) and self.config.predict.mqtt:
                    if not retained:  # it would come again with every connection
                        self._predictions.ask(payload, time.monotonic())
                case ModelChunk(_, digest, _) if digest in self._agent.needed and payload:
                    stored = self.store.models.add(digest, payload)
                    reach("agent-model-chunk")
                    self._feed(stored)
        except WireError as error:
            self._nonsense.warn(f"{topic}: {error}")
        except OSError as error:
            self._disk_trouble(error)
        except Exception as error:  # a fault of ours that a message has found: it costs this message alone
            tell_fault(topic, error)

    def _feed(self, event: Event) -> None:
        self._events.append(event)
        while self._events:
            for action in self._agent.handle(self._events.popleft()):
                try:
                    self._do(action)
                except OSError as error:
                    self._disk_trouble(error)
                except TransportError as error:
                    log.error("%s", error)
                except Exception as error:
                    tell_fault(type(action).__name__, error)

    def _disk_trouble(self, error: OSError) -> None:
        log.error("state folder %s: %s; free some space or fix it", self.config.state_dir, error.strerror or error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            with suppress(OSError):
                self.store.models.evict(self._agent.needed, everything=True)

    # ---- settings

    def _settings_connected(self) -> None:
        try:
            self._settings.connected()
        except OSError as error:
            self._disk_trouble(error)
        self._link.subscribe([self._mail.topic("desired")])
        self._report_settings()

    def _use_settings(self) -> None:
        before, self.config = self.config, self._settings.config
        if before.log != self.config.log:
            config = self.config
            setup_logging(config.log.format, config.log.level, fleet=config.fleet, device=config.device)

    def _report_settings(self) -> None:
        reported = self._settings.report()
        if reported is not None:
            self._reports.settings(reported)

    # ---- actions

    def _do(self, action: Action) -> None:
        match action:
            case Say(level, text, of_round):
                getattr(log, level)("%s", text, extra={"round": of_round})
            case Announce():
                self._reports.announce(self.config)
            case Follow(newest, forget):
                self._following.take(newest, forget=forget)
            case Look(digest):
                self._look(digest)
            case Subscribe(digest, numbers):
                self._link.subscribe(self._mail.model_topics(digest, tuple(numbers)))
            case Unsubscribe(digest, numbers):
                self._link.unsubscribe(self._mail.model_topics(digest, tuple(numbers)))
            case CheckModel(digest):
                checked = self.store.models.check(digest)
                if isinstance(checked, Fetched):
                    reach("agent-model-fetched")
                self._events.append(checked)
            case StartTraining():
                self._note(self._trainings.start(action, self.config))
            case StopTraining(key):
                self._note(self._trainings.stop(key))
            case SendChunk(transfer, n):
                payload = self.store.chunk(transfer, n)
                if self._link.publish(self._mail.topic("up"), payload, qos=0):
                    self._reports.bytes_up += len(payload)
                    reach("agent-chunk-sent")
            case Settle(spooled, accepted):
                reach("agent-accepted")
                self.store.settle(spooled, accepted=accepted)
                reach("agent-finished")
            case Report(number, reason):
                self._reports.metrics(number, {}, problem=reason[:200])

    def _note(self, event: Event | None) -> None:
        """What came of an action at once; the protocol hears it next."""
        if event is not None:
            self._events.append(event)

    def _look(self, digest: str) -> None:
        found: Event = Resumed(digest)
        try:
            self.store.models.evict(self._agent.needed)
            found = self.store.models.look(digest)
        finally:
            self._events.append(found)

    # ---- the child

    def _watch(self) -> None:
        done = self._trainings.poll(time.monotonic())
        if self._trainings.computes_on != self._reports.computes_on:
            self._reports.computes_on = self._trainings.computes_on
            self._reports.announce(self.config)
        if done is None:
            return
        ended, work = done
        try:
            self._feed(self._outcome(ended, work))
        except OSError as error:
            self._disk_trouble(error)
            self._feed(TrainingFailed(ended.key, f"its work cannot be put in place: {error}", again=True))

    def _outcome(self, ended: Ended, work: Job | Offer) -> Event:
        if ended.facts is None:
            back = self._settings.failed(ended.reason)
            if back:
                self._use_settings()
                self._report_settings()
            return TrainingFailed(ended.key, ended.reason, ended.again or back)
        self._settings.worked()
        event = self._trainings.put_in_place(ended, work)
        if isinstance(event, TrainingDone) and event.spooled is not None:
            self._reports.metrics(work.round, ended.facts)
        return event
