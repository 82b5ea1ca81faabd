"""The agent as a process: link, clock, disk and training child around `edge_agent/protocol/agent.py`. Imports no torch.

One thread does everything; the link and a running child have helpers that only put into queues. Whatever the protocol
decides is done in its order, and what comes of it (`Fetched`, `TrainingDone`, ...) is handed back as an event.
"""

from __future__ import annotations

import errno
import logging
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from core.crashpoints import reach
from core.errors import TransportError, WireError
from core.logs import setup_logging
from core.versions import versions
from edge_agent.child.request import make_request
from edge_agent.child.supervisor import Child, Ended, LabelCounter
from edge_agent.config import AgentConfig
from edge_agent.faults import Nonsense, tell_fault
from edge_agent.host.systemd import notify, watchdog_seconds
from edge_agent.host.telemetry import temperature_c
from edge_agent.messages import Mail
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
from edge_agent.state.store import Store
from transport import link as transport
from wire.keys import load_private_key, public_key_hex
from wire.messages import About, Job, Metrics, Offer, State
from wire.refusals import READS_CODES
from wire.topics import DeviceTopic, ModelChunk, agent_filters, parse

__all__ = ["Service"]

log = logging.getLogger("edgestill.agent")
IDLE_S = 5.0  # nothing to do: look around this often all the same
BUSY_S = 1.0  # with a child or a helper to watch
FAULT_S = 1.0  # after a fault of ours that may come again at once
METRICS_EXPIRY_S = 600  # where the broker knows MQTT 5


class Service:
    """One agent; `run` until `stop`. `make_child` starts what trains: `Child`, or another with its methods."""

    def __init__(self, config: AgentConfig, *, make_child: Callable[..., Child] = Child) -> None:
        self.config = config
        self._make_child = make_child
        self._aggregator = config.aggregator_key()
        key = load_private_key(config.private_key)
        self._mail = Mail(config.fleet, config.device, key=key, aggregator=self._aggregator, wall_clock=time.time)
        self._counter = LabelCounter(config.data.path)
        self._labels: tuple[int, ...] = ()
        self._count_labels(self._counter.wait())
        self.store = Store(config.state_dir, prototype=config.prototype, cache_mb=config.cache_mb)
        self._settings = Settings(config, config.state_dir)
        self._use_settings()
        self._session = self.store.next_session()
        self._agent = Agent(
            config.prototype,
            device=config.device,
            newest=self.store.newest,
            finished=self.store.finished(),
            outbox=self.store.outbox(),
            taken=self.store.taken,
        )
        self._link = transport.Link(
            config.broker,
            client_id=f"edgestill-{config.fleet}-{config.device}",
            filters=agent_filters(config.fleet, config.device),
            will=self._mail.state(State(status="lost", session=self._session)),
        )
        self._unsaved: Follow | None = None  # not on the disk yet; tried again at
        self._save_at = 0.0
        self._child: Child | None = None
        self._work: Job | Offer | None = None  # what the child is at
        self._events: deque[Event] = deque()
        self._nonsense = Nonsense()
        self._stopping = False
        self._bytes_up = self._bytes_down = 0
        self._beat_every = watchdog_seconds()
        self._beat_at = 0.0

    def run(self) -> int:
        """Serve until told to stop; 0."""
        log.info("%s of %s, session %d: starting", self.config.device, self.config.fleet, self._session)
        for upload in self._agent.uploads.values():
            log.info("round %d: an update waits in the outbox", upload.spooled.round)
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

    def stop_on_signals(self) -> None:
        """End `run` on SIGTERM and SIGINT; to be called on the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

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
            case transport.Disconnected():
                notify("STATUS=looking for the broker")
                self._feed(Disconnected())
            case transport.Received(topic, payload, _):
                self._bytes_down += len(payload)
                self._receive(topic, payload)
        self._watch()
        self._try_again()
        self._beat()

    def _try_again(self) -> None:
        """What could not be done when it was due: a full disk, a helper that was killed."""
        if self._unsaved is not None and time.monotonic() >= self._save_at:
            self._save_at = time.monotonic() + IDLE_S
            try:
                self._follow()
            except OSError as error:
                self._disk_trouble(error)
        counts = self._counter.poll(time.monotonic())
        if counts is not None:
            self._count_labels(counts)
            self._announce()

    def _count_labels(self, counts: tuple[int, ...] | None) -> None:
        """With noise, an update tells them; the length of a list would tell the last label."""
        data = self.config.data
        if counts is not None and data.count_epsilon is None and data.count_bins is None:
            self._labels = counts

    def _patience(self) -> float:
        now = time.monotonic()
        wait = min(self._agent.due - now, BUSY_S if self._child or self._counter.busy else IDLE_S)
        if self._beat_every is not None:
            wait = min(wait, self._beat_at + self._beat_every - now)
        return max(wait, 0.0)

    def _beat(self) -> None:
        now = time.monotonic()
        if self._beat_every is not None and now >= self._beat_at + self._beat_every:
            notify("WATCHDOG=1")
            self._beat_at = now

    def _end(self) -> None:
        notify("STOPPING=1")
        self._counter.kill()
        if self._child is not None:
            self._child.kill()
        self._link.stop([self._mail.state(State(status="offline", session=self._session))])
        self.store.close()
        log.info("stopped")

    def _receive(self, topic: str, payload: bytes) -> None:
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
                    self._contradict(self._mail.read_state(payload))
                case DeviceTopic(of, to, "desired") if (of, to) == (fleet, device) and payload:
                    if self._settings.take(self._mail.read_desired(payload)):
                        self._use_settings()
                        self._report_settings()
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
            setup_logging(self.config.log.format, self.config.log.level)

    def _report_settings(self) -> None:
        reported = self._settings.report()
        if reported is not None:
            self._link.publish(*self._mail.reported(reported), retain=True)
            reach("agent-settings-reported")

    # ---- actions

    def _do(self, action: Action) -> None:
        match action:
            case Say(level, text):
                getattr(log, level)("%s", text)
            case Announce():
                self._announce()
            case Follow(newest, forget):
                owed = self._unsaved is not None and self._unsaved.forget
                self._unsaved = Follow(newest, forget or owed)
                self._follow()
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
                self._start(action)
            case StopTraining(key):
                self._stop_child(key)
            case SendChunk(transfer, n):
                payload = self.store.chunk(transfer, n)
                if self._link.publish(self._mail.topic("up"), payload, qos=0):
                    self._bytes_up += len(payload)
                    reach("agent-chunk-sent")
            case Settle(spooled, accepted):
                reach("agent-accepted")
                self.store.settle(spooled, accepted=accepted)
                reach("agent-finished")
            case Report(number, reason):
                self._send_metrics(number, {}, problem=reason[:200])

    def _announce(self) -> None:
        config = self.config
        about = About(
            board=config.board,
            prototype=config.prototype,
            precision=str(config.precision),
            label_counts=self._labels,
            noised=config.data.count_epsilon is not None or config.data.count_bins is not None,
            versions={**versions(), READS_CODES[0]: READS_CODES[1]},
        )
        for topic, payload in (
            self._mail.state(State(status="online", session=self._session)),
            self._mail.about(about),
        ):
            self._link.publish(topic, payload, retain=True)
        reach("agent-announced")

    def _follow(self) -> None:
        """Keep what is the newest; on a full disk it is tried again, and again."""
        if self._unsaved is None:
            return
        if self._unsaved.forget:
            self.store.forget_before(self._unsaved.newest.epoch)
            reach("agent-epoch-forgotten")
            self._unsaved = Follow(self._unsaved.newest)
        self.store.follow(self._unsaved.newest)
        self._unsaved = None
        reach("agent-followed")

    def _contradict(self, said: State) -> None:
        """The will of a connection that broke can be published after the next connection's `online`."""
        if said.session > self._session:
            log.warning("session %d of this device is somewhere else; is the state folder a copy?", said.session)
        elif said.status != "online":
            self._link.publish(*self._mail.state(State(status="online", session=self._session)), retain=True)

    def _look(self, digest: str) -> None:
        found: Event = Resumed(digest)
        try:
            self.store.models.evict(self._agent.needed)
            found = self.store.models.look(digest)
        finally:
            self._events.append(found)

    def _send_metrics(self, number: int, facts: dict[str, float], *, problem: str | None = None) -> None:
        metrics = Metrics(
            round=number,
            train_loss=facts.get("train_loss"),
            seconds=facts.get("seconds"),
            temperature_c=temperature_c(),
            memory_mb=facts.get("memory_mb"),
            bytes_up=self._bytes_up,
            bytes_down=self._bytes_down,
            problem=problem,
        )
        topic, payload = self._mail.metrics(metrics)
        self._link.publish(topic, payload, qos=0, expiry_s=METRICS_EXPIRY_S)

    # ---- the child

    def _start(self, action: StartTraining) -> None:
        assert self._child is None
        spooled = self.store.spooled(action.key)
        if spooled is not None:  # left by a child whose agent was killed
            self._events.append(TrainingDone(action.key, spooled))
            return
        now = time.monotonic()
        side_artifact = action.instruction.side_artifact
        try:
            self._child = self._make_child(
                make_request(
                    self.config,
                    action,
                    model=self.store.models.path(action.instruction.model),
                    side_artifact=None if side_artifact is None else self.store.models.path(side_artifact),
                    aggregator=public_key_hex(self._aggregator),
                    now=now,
                ),
                max_seconds=self.config.train.max_seconds,
                now=now,
                wake=self._link.wake,
                attempt=action.attempt,
            )
        except OSError as error:
            self._events.append(TrainingFailed(action.key, f"the training child cannot start: {error}", again=True))
            return
        self._work = action.instruction
        doing = "training" if isinstance(action.instruction, Job) else "looking at the offered model"
        log.info("round %d: %s in process %d", action.instruction.round, doing, self._child.pid)
        reach("agent-training-started")

    def _stop_child(self, key: str) -> None:
        child, self._child, self._work = self._child, None, None
        if child is not None:
            child.kill()
        spooled = self.store.spooled(key)
        if spooled is not None:  # it was faster than the order to stop
            self.store.take_job(key)
            self._events.append(TrainingDone(key, spooled))

    def _watch(self) -> None:
        if self._child is None:
            return
        child = self._child
        ended = child.poll(time.monotonic())
        for text in child.warnings:
            log.warning("%s", text)
        child.warnings.clear()
        if ended is not None:
            work, self._child, self._work = self._work, None, None
            assert work is not None
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
        if "refused" in ended.facts:
            accuracies = f"{ended.facts['accuracy']:.3f} < {ended.facts['accuracy_before']:.3f}"
            log.warning("round %d: the new model is worse here (%s): the board keeps its own", work.round, accuracies)
        if isinstance(work, Offer):
            self.store.take_offer(ended.key, work.model)
            if "refused" not in ended.facts:
                log.info("round %d: the offered model is the board's now", work.round)
            return TrainingDone(ended.key)
        reach("agent-update-spooled")
        self.store.take_job(ended.key)
        spooled = self.store.spooled(ended.key)
        if spooled is None:
            return TrainingFailed(ended.key, "the training child left no update", again=True)
        log.info(
            "round %d: trained, loss %.4f; %d chunks to send", work.round, ended.facts["train_loss"], spooled.count
        )
        self._send_metrics(work.round, ended.facts)
        return TrainingDone(ended.key, spooled)
