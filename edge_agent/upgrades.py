"""Upgrades of edgestill on this board: chunks to the disk, the bundle to the installer, its status to the fleet.

    state_dir/upgrade/models, partial     the bundle, as it arrives: edge_agent/state/model_cache.py
    state_dir/upgrade/request             the whole bundle, for the installer, which removes it when it is done
    state_dir/upgrade/healthy             the number of the upgrade in whose trial this agent is well
    UPGRADES/status.json                  what the installer says; [agent] upgrades of agent.toml names the folder

Without that folder, or the file in it, nobody installs anything here, and the agent says so.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from core.crashpoints import reach
from core.files import move, write_atomic
from core.versions import versions
from edge_agent.messages import Mail
from edge_agent.protocol.events import (
    CheckModel,
    Connected,
    Disconnected,
    Look,
    Say,
    Subscribe,
    Tick,
    Unsubscribe,
)
from edge_agent.protocol.upgrade import (
    Action,
    Discard,
    Event,
    HandOver,
    HeardSelf,
    Installer,
    Offered,
    SayWell,
    Tell,
    UpgradeAgent,
)
from edge_agent.state.folders import read_small, remove
from edge_agent.state.model_cache import ModelCache
from transport.link import Link
from wire.chunks import MAX_SIZE
from wire.messages import TAKES_UPGRADES

__all__ = ["Upgrades"]

log = logging.getLogger("edgestill.agent")
STATUS, FOLDER, REQUEST = "status.json", "upgrade", "request"
NO_INSTALLER = "not supported here: nothing on this board installs upgrades; push or flash a kit"
Events: TypeAlias = Sequence[Event]


class _Status(msgspec.Struct, frozen=True):
    """What this agent reads of the installer's status."""

    digest: str = ""
    number: int = 0
    phase: str = ""
    reason: str = ""
    environment: str = ""


class Upgrades:
    """The upgrades of one device; `installer` is the folder of the installer's status, None if there is none."""

    def __init__(self, installer: Path | None, state_dir: Path, *, mail: Mail, link: Link) -> None:
        self._mail, self._link = mail, link
        self._status = None if installer is None else installer / STATUS
        self._seen: tuple[int, int, bool] | None = None
        self.folder = state_dir / FOLDER
        supported = self._status is not None and self._status.is_file()
        self._cache = ModelCache(self.folder, limit=MAX_SIZE) if supported else None
        self._agent = UpgradeAgent(
            mail.device,
            versions()["edgestill"],
            refusal="" if supported else NO_INSTALLER,
            handed_over=self._waiting(),
        )

    @property
    def announced(self) -> dict[str, str]:
        """What `About.versions` says of upgrades."""
        name, value = TAKES_UPGRADES
        return {name: self._agent.refusal or value}

    @property
    def due(self) -> float:
        """When to call `poll`."""
        return self._agent.due

    @property
    def needed(self) -> set[str]:
        """The digest of the bundle whose chunks are expected."""
        return self._agent.needed

    def connected(self) -> None:
        """The broker was reached; an older access list may refuse this subscription."""
        if self._cache is not None:
            self._link.subscribe([self._mail.topic("upgrade")])
        self._feed(Connected())

    def disconnected(self) -> None:
        """The connection is gone."""
        self._feed(Disconnected())

    def heard_self(self) -> None:
        """The broker has delivered what this agent published: both directions work."""
        self._feed(HeardSelf())

    def offered(self, payload: bytes) -> None:
        """The message on the upgrade topic."""
        self._feed(Offered(self._mail.read_upgrade(payload) if payload else None))

    def chunk(self, digest: str, payload: bytes) -> None:
        """A chunk of the bundle."""
        assert self._cache is not None
        stored = self._cache.add(digest, payload)
        reach("agent-bundle-chunk")
        self._feed(stored)

    def poll(self, now: float) -> None:
        """Look at the clock, and at what the installer says."""
        self._feed(Tick(now))
        if self._status is None or self._cache is None:
            return
        try:
            facts, waiting = self._status.stat(), self._waiting()
            if (facts.st_mtime_ns, facts.st_ino, waiting) == self._seen:
                return
            self._seen = facts.st_mtime_ns, facts.st_ino, waiting
            status = msgspec.json.decode(read_small(self._status), type=_Status)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("%s: %s", self._status, error)
            return
        mine = bool(status.environment) and os.path.realpath(status.environment) == os.path.realpath(sys.prefix)
        self._feed(Installer(status.digest, status.number, status.phase, status.reason, mine, waiting))

    def _waiting(self) -> bool:
        return (self.folder / REQUEST).exists()

    def _feed(self, event: Event) -> None:
        events = deque([event])
        while events:
            for action in self._agent.handle(events.popleft()):
                events.extend(self._do(action))

    def _do(self, action: Action) -> Events:
        match action:
            case Say(level, text):
                getattr(log, level)("%s", text)
            case Tell(upgraded):
                self._link.publish(*self._mail.upgraded(upgraded), retain=True)
                reach("agent-upgrade-told")
            case Subscribe(digest, numbers):
                self._link.subscribe(self._mail.model_topics(digest, tuple(numbers)))
            case Unsubscribe(digest, numbers):
                self._link.unsubscribe(self._mail.model_topics(digest, tuple(numbers)))
            case SayWell(number):
                write_atomic(self.folder / "healthy", str(number))
                reach("agent-upgrade-well")
            case _:
                return self._on_disk(action)
        return ()

    def _on_disk(self, action: Look | CheckModel | HandOver | Discard) -> Events:
        assert self._cache is not None
        match action:
            case Look(digest):
                self._cache.evict({digest}, everything=True)
                return (self._cache.look(digest),)
            case CheckModel(digest):
                return (self._cache.check(digest),)
            case HandOver(digest):
                reach("agent-bundle-fetched")
                if (self.folder / REQUEST).is_dir():
                    remove(self.folder / REQUEST)
                move(self._cache.path(digest), self.folder / REQUEST)
                reach("agent-bundle-handed-over")
            case Discard():
                self._cache.evict(set(), everything=True)
        return ()
