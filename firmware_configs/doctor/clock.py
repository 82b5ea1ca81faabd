"""The board's clock, compared with the dates of its kit. Boards without a battery begin in the past at every start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from core.errors import ConfigError
from core.files import read_regular
from edge_agent.config import AgentConfig
from firmware_configs.doctor.findings import Finding
from firmware_configs.identity.ca import MAX_PEM
from firmware_configs.identity.identities import begins
from firmware_configs.kits.kit import MANIFEST, MAX_MANIFEST

__all__ = ["check_clock"]

REMEDY = "connect the board to a time server, or set it with `sudo date --set`"
SKEW = timedelta(minutes=10)  # between a board and the machine that made its kit


class _Manifest(msgspec.Struct):
    created: datetime


def check_clock(config: AgentConfig, folder: Path, now: datetime | None = None) -> Iterator[Finding]:
    """A failure if no certificate of the kit is valid yet, a warning if the clock is earlier than the kit."""
    now = now or datetime.now(timezone.utc)
    made, valid = _made(folder), max(_begins(config), default=now)
    said = f"{now:%Y-%m-%d %H:%M} UTC"
    if now < valid:
        said += f", but the certificates are valid from {valid:%Y-%m-%d %H:%M} on: the broker cannot be reached"
        yield Finding("failure", "clock", f"{said}; {REMEDY}")
    elif made is not None and now + SKEW < made:
        yield Finding("warning", "clock", f"{said}, but the kit was made at {made:%Y-%m-%d %H:%M}; {REMEDY}")


def _made(folder: Path) -> datetime | None:
    try:
        return msgspec.json.decode(read_regular(folder / MANIFEST, MAX_MANIFEST), type=_Manifest).created
    except (OSError, msgspec.MsgspecError):
        return None  # an agent without a kit


def _begins(config: AgentConfig) -> Iterator[datetime]:
    tls = config.broker.tls
    for path in (tls.ca, tls.cert) if tls is not None else ():
        if path is not None:
            with suppress(OSError, ConfigError):  # other checks report what is wrong with it
                yield begins(read_regular(path, MAX_PEM))
