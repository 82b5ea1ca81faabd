"""Remote settings on a device: the last desired ones, and the last ones that worked.

`settings.json` of the state folder is replaced atomically, so a kill at any moment leaves either the old or the new
settings. New `train.*` and `update.*` settings are on trial until a training succeeds. If one fails with them, if the
agent was started three times without reaching its broker, or if they conflict with a changed agent.toml, the device
reverts to the last good ones, reports it, and does not try that version again.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

import msgspec

from core.crashpoints import reach
from core.errors import ConfigError, WireError
from core.files import write_atomic
from edge_agent.config import AgentConfig
from edge_agent.remote_settings.allowed import sort_out, with_settings
from edge_agent.state.folders import read_small, set_aside
from wire.codec import encode_message
from wire.messages import Desired, Reported

__all__ = ["Settings"]

log = logging.getLogger("edgestill.agent")
FILE = "settings.json"
STARTS = 3  # without reaching the broker


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 0  # 0: nothing was ever desired
    settings: dict[str, str] = {}  # in effect
    refused: dict[str, str] = {}
    status: Literal["applied", "rolled-back"] = "applied"
    reason: str = ""
    good: dict[str, str] = {}  # to revert to
    on_trial: bool = False
    starts: int = 0  # on trial, since the broker was last reached


class Settings:
    """The settings of the device whose agent.toml is `base`; `config` is the effective configuration."""

    def __init__(self, base: AgentConfig, folder: Path) -> None:
        self._base, self._path, self._folder = base, folder / FILE, folder
        self.config = base
        self._kept = self._load()
        if self._kept.on_trial:
            self._keep(starts=self._kept.starts + 1)
        if self._kept.starts > STARTS:
            self.failed(f"{STARTS} starts did not reach the broker with them")
        self._use()

    def take(self, desired: Desired) -> bool:
        """Apply the valid settings; False if this version, or a later one, was applied before."""
        if desired.version <= self._kept.version:
            return False
        settings, refused = sort_out(self._base, desired.settings)
        good = self._kept.good if self._kept.on_trial else self._kept.settings
        reach("agent-settings-heard")
        self._keep(
            version=desired.version,
            settings=settings,
            refused=refused,
            status="applied",
            reason="",
            good=good,
            on_trial=_of_training(settings) != _of_training(good),
            starts=0,
        )
        reach("agent-settings-kept")
        self._use()
        log.info("settings %d: %s", desired.version, _told(settings) or "as agent.toml says")
        for reason in refused.values():
            log.warning("settings %d: refused: %s", desired.version, reason)
        return True

    def connected(self) -> None:
        """The broker was reached."""
        if self._kept.starts:
            self._keep(starts=0)

    def worked(self) -> None:
        """A training has succeeded."""
        if self._kept.on_trial:
            self._keep(on_trial=False, starts=0, good=self._kept.settings)

    def failed(self, reason: str) -> bool:
        """A failure that new settings may have caused; True if the previous ones were restored."""
        if not self._kept.on_trial:
            return False
        log.error("settings %d: rolled back to %s: %s", self._kept.version, _told(self._kept.good) or "none", reason)
        self._keep(settings=self._kept.good, status="rolled-back", reason=reason[:200], on_trial=False, starts=0)
        self._use()
        return True

    def report(self) -> Reported | None:
        """The report to the aggregator; None if nothing was ever desired."""
        return _reported(self._kept) if self._kept.version else None

    def _use(self) -> None:
        try:
            self.config = with_settings(self._base, self._kept.settings)
        except ConfigError as error:  # agent.toml, or edgestill itself, has changed since
            if not self.failed(str(error)):
                log.error("settings %d: left out: %s", self._kept.version, error)
                self._keep(settings={}, good={}, status="rolled-back", reason=str(error)[:200])
                self.config = self._base

    def _load(self) -> _Kept:
        try:
            kept = msgspec.json.decode(read_small(self._path), type=_Kept)
            if kept.version:
                encode_message(_reported(kept))  # settings that cannot be reported were not written by us
            return kept
        except FileNotFoundError:
            return _Kept()
        except (ValueError, msgspec.MsgspecError, WireError) as error:
            set_aside(self._folder, self._path, f"no settings ({error})")
            return _Kept()

    def _keep(self, **changes: object) -> None:
        kept = msgspec.structs.replace(self._kept, **changes)
        write_atomic(self._path, msgspec.json.encode(kept))
        self._kept = kept


def _reported(kept: _Kept) -> Reported:
    return Reported(
        version=kept.version,
        status=kept.status,
        settings=kept.settings,
        refused=kept.refused,
        reason=kept.reason,
    )


def _of_training(settings: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in settings.items() if not name.startswith("log.")}


def _told(settings: dict[str, str]) -> str:
    return " ".join(f"{name}={text}" for name, text in settings.items())
