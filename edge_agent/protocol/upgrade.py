"""The device's side of an upgrade of edgestill, without I/O: events in, actions out. Specified in docs/updates.md.

The agent fetches the bundle and hands it over; the installer (firmware_configs/on_board/upgrade.py), which is root,
does the rest and says in its status how far it is. So the phase follows from the offer, the transfer and the status:

    no installer                                    refused
    the status is about this bundle                 installing, trial, committed, back, refused: as it says
    the status is about a newer bundle              refused: a broker may replay any message
    else, before the bundle was handed over         fetching
    else                                            installing

On trial the agent says that it is well once it has heard from its broker what it published there itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from edge_agent.protocol.download import Download
from edge_agent.protocol.events import (
    CheckModel,
    ChunkStored,
    Connected,
    Disconnected,
    Fetched,
    FetchFailed,
    Look,
    Resumed,
    Say,
    Subscribe,
    Tick,
    Unsubscribe,
)
from wire.messages import Upgrade, Upgraded, UpgradePhase

__all__ = [
    "Action",
    "Discard",
    "Event",
    "HandOver",
    "HeardSelf",
    "Installer",
    "Offered",
    "SayWell",
    "Tell",
    "UpgradeAgent",
]

STEPS = 10  # reports of a transfer
FINAL: tuple[UpgradePhase, ...] = ("committed", "back", "refused")


@dataclass(frozen=True, slots=True)
class Offered:
    """The message on the upgrade topic; None: nothing is offered any longer."""

    upgrade: Upgrade | None


@dataclass(frozen=True, slots=True)
class Installer:
    """What the installer says; `mine`: this agent runs in its environment; `waiting`: a bundle waits for it."""

    digest: str = ""
    number: int = 0
    phase: str = ""
    reason: str = ""
    mine: bool = False
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class HeardSelf:
    """The broker has delivered what this agent published."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give this bundle to the installer."""

    digest: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Nothing of a bundle is needed any more."""


@dataclass(frozen=True, slots=True)
class SayWell:
    """Tell the installer that the agent on trial is well."""

    number: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Publish how far the upgrade is; retained."""

    upgraded: Upgraded


Event: TypeAlias = (
    Offered | Installer | HeardSelf | Tick | Connected | Disconnected | Resumed | ChunkStored | Fetched | FetchFailed
)
Action: TypeAlias = Look | Subscribe | Unsubscribe | CheckModel | HandOver | Discard | SayWell | Tell | Say


class UpgradeAgent:
    """One device that runs `version`; `handed_over`: whether a bundle waits for the installer already."""

    def __init__(self, device: str, version: str, *, refusal: str = "", handed_over: bool = False) -> None:
        self.device, self.version, self.refusal = device, version, refusal
        self._installer = Installer()
        self._offer: Upgrade | None = None
        self._download: Download | None = None
        self._progress = 0.0
        self._online, self._heard, self._well = False, False, 0
        self._handed = handed_over
        self._now = 0.0
        self._told: Upgraded | None = None

    def handle(self, event: Event) -> Sequence[Action]:
        """The actions for `event`, in order."""
        match event:
            case Tick(now):
                self._now = now
                return self._download.tick(now) if self._download and self._online else []
            case Connected():
                self._online, self._told = True, None
                return [*(self._download.connected(self._now) if self._download else []), *self._tell()]
            case Disconnected():
                self._online = False
                return []
            case Offered(upgrade):
                return [*self._offered(upgrade), *self._tell()]
            case Installer():
                self._installer = event
                return [*self._after_status(), *self._tell(), *self._say_well()]
            case HeardSelf():
                self._heard = True
                return self._say_well()
            case _:
                return self._fetch(event)

    @property
    def due(self) -> float:
        """The latest time of the next `Tick`."""
        return self._download.due if self._download and self._online else float("inf")

    @property
    def needed(self) -> set[str]:
        """The bundle that is being fetched."""
        return {self._download.digest} if self._download else set()

    def _offered(self, upgrade: Upgrade | None) -> list[Action]:
        if upgrade is not None and upgrade.device != self.device:
            return [Say("warning", f"an upgrade for {upgrade.device!r} is refused; does the broker mix up its topics?")]
        if upgrade == self._offer:
            return []
        if upgrade is not None and self._offer is not None and upgrade.number < self._offer.number:
            return []  # replayed
        actions = self._stop()
        self._offer, self._progress, self._told = upgrade, 0.0, None
        return [*actions, *(self._begin() if upgrade is not None else [Discard()])]

    def _begin(self) -> list[Action]:
        """Fetch what is offered, if that is what comes next."""
        if self._offer is None or self._download is not None or self._phase()[0] != "fetching":
            return []
        self._download = Download(self._offer.bundle)
        text = f"edgestill {self._offer.version} is offered, this is {self.version}; fetching it"
        return [Say("info", text), Look(self._offer.bundle)]

    def _stop(self) -> list[Action]:
        """No longer fetch."""
        download, self._download = self._download, None
        return [*download.dropped()] if download is not None and self._online else []

    def _after_status(self) -> list[Action]:
        self._handed = self._installer.waiting
        if self._download is not None and self._phase()[0] in FINAL:
            return [*self._stop(), Discard()]
        return self._begin()

    def _fetch(self, event: Resumed | ChunkStored | Fetched | FetchFailed) -> Sequence[Action]:
        download = self._download
        if download is None or event.digest != download.digest:
            return []
        match event:
            case Resumed(_, count, missing):
                return [*download.resumed(count, missing, self._now, self._online), *self._tell()]
            case ChunkStored(_, n, count):
                self._progress = min(self._progress + 1 / count, 1.0)
                return [*download.stored(n, count, self._now), *self._tell()]
            case FetchFailed(_, reason):
                download.failed(self._now)
                self._progress = 0.0
                return [Say("warning", f"the bundle: {reason}; fetching it again")]
        self._download, self._handed = None, True
        return [Say("info", "the bundle is here; the installer takes it"), HandOver(event.digest), *self._tell()]

    def _phase(self) -> tuple[UpgradePhase, str]:
        """Where the offered upgrade is, and why."""
        assert self._offer is not None
        status = self._installer
        if self.refusal:
            return "refused", self.refusal
        if status.digest == self._offer.bundle and status.phase:
            phase: UpgradePhase = "trial" if status.phase == "returning" else status.phase  # type: ignore[assignment]
            return phase, status.reason if phase in FINAL else ""
        if status.number >= self._offer.number:
            return "refused", "it is older than the last bundle that this board accepted"
        return ("installing" if self._handed else "fetching"), ""

    def _tell(self) -> list[Action]:
        if self._offer is None or not self._online:
            return []
        phase, reason = self._phase()
        progress = int(self._progress * STEPS + 1e-6) / STEPS if phase == "fetching" else 0.0
        told = Upgraded(
            number=self._offer.number, phase=phase, version=self.version, reason=reason[:200], progress=progress
        )
        if told == self._told:
            return []
        self._told = told
        return [Tell(told)]

    def _say_well(self) -> list[Action]:
        status = self._installer
        if not (self._heard and status.mine and status.phase == "trial") or self._well == status.number:
            return []
        self._well = status.number
        return [Say("info", f"edgestill {self.version} is on trial, and well"), SayWell(status.number)]
