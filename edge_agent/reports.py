"""What an agent tells of itself: that it is there, what it is, how its training went, which settings it has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from core.crashpoints import reach
from core.newest_lines import NewestLines
from core.versions import versions
from edge_agent.config import AgentConfig, DataConfig
from edge_agent.host.telemetry import temperature_c
from edge_agent.messages import Mail
from edge_agent.samples.survey import Survey
from transport.link import Link
from wire.board_reports import Ask, LogTail, Telemetry
from wire.messages import COMPUTE, About, DataState, Metrics, Reported, State
from wire.refusals import READS_CODES

__all__ = ["Reports"]

log = logging.getLogger("edgestill.agent")
METRICS_EXPIRY_S = 600  # where the broker knows MQTT 5


class Reports:
    """Messages of one session; counts the bytes that metrics tell."""

    def __init__(
        self, mail: Mail, link: Link, session: int, abilities: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`abilities` are announced with the versions."""
        self._mail, self._link, self._session, self._abilities = mail, link, session, abilities
        self._survey: Survey | None = None
        self._told: tuple[object, ...] = ()  # of samples, when they were last announced
        self._asked = 0  # the number of the last request for the log
        self._described = False  # whether telemetry was sent
        self.computes_on = ""  # the compute device of the last training; before the first it is not known
        self.bytes_up = self.bytes_down = 0

    def samples(self, survey: Survey | None, data: DataConfig) -> bool:
        """What there is to train on now; whether that is something new to announce."""
        if survey is None:
            return False
        before, self._survey = self._survey, survey
        _log_changes(before, survey)
        return self._about_samples(data) != self._told

    def _about_samples(self, data: DataConfig) -> tuple[tuple[int, ...], DataState | None]:
        """With noise, an update tells the counts; the length of a list would tell the last label."""
        if self._survey is None:
            return (), None
        private = _private(data)
        return () if private else self._survey.label_counts, self._survey.state(private=private)

    def announce(self, config: AgentConfig) -> None:
        """Online, and what this device is; retained."""
        counts, state = self._told = self._about_samples(config.data)
        about = About(
            board=config.board,
            prototype=config.prototype,
            precision=str(config.precision),
            label_counts=counts,
            noised=_private(config.data),
            versions={**versions(), **self._compute(), READS_CODES[0]: READS_CODES[1], **self._abilities},
            data=state,
        )
        for topic, payload in (self._online(), self._mail.about(about)):
            self._link.publish(topic, payload, retain=True)
        reach("agent-announced")

    def _compute(self) -> dict[str, str]:
        return {COMPUTE: self.computes_on} if self.computes_on else {}

    def contradict(self, said: State) -> None:
        """The will of a connection that broke can be published after the next connection's `online`."""
        if said.session > self._session:
            log.warning("session %d of this device is somewhere else; is the state folder a copy?", said.session)
        elif said.status != "online":
            self._link.publish(*self._online(), retain=True)

    def settings(self, reported: Reported) -> None:
        """Which settings the device has; retained."""
        self._link.publish(*self._mail.reported(reported), retain=True)
        reach("agent-settings-reported")

    def metrics(self, number: int, facts: Mapping[str, float], *, problem: str | None = None) -> None:
        """How training for a round went, or why nothing comes of it."""
        metrics = Metrics(
            round=number,
            train_loss=facts.get("train_loss"),
            seconds=facts.get("seconds"),
            temperature_c=temperature_c(),
            memory_mb=facts.get("memory_mb"),
            bytes_up=self.bytes_up,
            bytes_down=self.bytes_down,
            problem=problem,
        )
        topic, payload = self._mail.metrics(metrics)
        self._link.publish(topic, payload, qos=0, expiry_s=METRICS_EXPIRY_S)

    def telemetry(self, telemetry: Telemetry) -> None:
        """The stage of the work and the state of the board.

        The first one has QoS 1: a broker with an access list of an older edgestill denies others in silence.
        """
        told = self._link.publish(
            *self._mail.telemetry(telemetry), qos=0 if self._described else 1, expiry_s=METRICS_EXPIRY_S
        )
        self._described = self._described or told

    def log_tail(self, ask: Ask, lines: NewestLines) -> None:
        """Answer a request for the end of the log, once."""
        if ask.number <= self._asked:
            return
        self._asked = ask.number
        tail = LogTail(number=ask.number, lines=lines.newest(ask.lines), withheld=not lines.most)
        self._link.publish(*self._mail.log_tail(tail), expiry_s=METRICS_EXPIRY_S)  # QoS 1: a refusal is logged

    def _online(self) -> tuple[str, bytes]:
        return self._mail.state(State(status="online", session=self._session))


def _private(data: DataConfig) -> bool:
    return data.count_epsilon is not None or data.count_bins is not None


def _log_changes(before: Survey | None, now: Survey) -> None:
    """A line for each thing that somebody at the board should know, once."""
    if now.waiting and (before is None or before.waiting != now.waiting):
        log.info("%s", now.waiting)
    if before is not None and before.waiting and not now.waiting:
        log.info("%d samples to train on, %d held out", now.training, now.held_out)
    for name, reason in now.rejected.items():
        if before is None or before.rejected.get(name) != reason:
            log.warning("%s: set aside: %s", name, reason)
    for name, count in now.unknown.items():
        if before is None or name not in before.unknown:
            log.warning("class %r is not one of the fleet's: %d samples are set aside", name, count)
    if now.lacks and (before is None or before.lacks != now.lacks):
        log.warning("no sample of %s", ", ".join(map(repr, now.lacks[:10])) + " …" * (len(now.lacks) > 10))
