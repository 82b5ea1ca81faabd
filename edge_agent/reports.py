"""What an agent tells of itself: that it is there, what it is, how its training went, which settings it has."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from core.crashpoints import reach
from core.versions import versions
from edge_agent.config import AgentConfig, DataConfig
from edge_agent.host.telemetry import temperature_c
from edge_agent.messages import Mail
from transport.link import Link
from wire.messages import COMPUTE, About, Metrics, Reported, State
from wire.refusals import READS_CODES

__all__ = ["Reports"]

log = logging.getLogger("edgestill.agent")
METRICS_EXPIRY_S = 600  # where the broker knows MQTT 5


class Reports:
    """Messages of one session; counts the bytes that metrics tell."""

    def __init__(self, mail: Mail, link: Link, session: int) -> None:
        self._mail, self._link, self._session = mail, link, session
        self._labels: tuple[int, ...] = ()
        self.computes_on = ""  # the compute device of the last training; before the first it is not known
        self.bytes_up = self.bytes_down = 0

    def count_labels(self, counts: tuple[int, ...] | None, data: DataConfig) -> None:
        """With noise, an update tells them; the length of a list would tell the last label."""
        if counts is not None and data.count_epsilon is None and data.count_bins is None:
            self._labels = counts

    def announce(self, config: AgentConfig) -> None:
        """Online, and what this device is; retained."""
        about = About(
            board=config.board,
            prototype=config.prototype,
            precision=str(config.precision),
            label_counts=self._labels,
            noised=config.data.count_epsilon is not None or config.data.count_bins is not None,
            versions={**versions(), **self._compute(), READS_CODES[0]: READS_CODES[1]},
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

    def _online(self) -> tuple[str, bytes]:
        return self._mail.state(State(status="online", session=self._session))
