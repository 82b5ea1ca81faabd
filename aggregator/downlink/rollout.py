"""Which devices are offered another version of edgestill, without I/O.

All at once, or first `canary` of them. The others follow when those have committed and `wait_s` has passed since the
last of them did. With canaries the rollout stops when a device goes back, or when a canary refuses: devices that have
not begun to install are no longer offered anything.

    waiting      not offered yet                        back         it did not work there, the former version runs
    offered      nothing was heard                      refused      nothing was changed there
    fetching     the bundle is on its way               withdrawn    no longer offered
    installing, trial, committed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from wire.messages import UpgradePhase

__all__ = ["FINAL", "STAGES", "Progress", "Rollout", "next_look", "offered", "rollout_opens", "stage_of", "why_stop"]

FINAL = ("committed", "back", "refused")
STAGES = ("waiting", "offered", "fetching", "installing", "trial", *FINAL, "withdrawn")
BEGUN = ("installing", "trial", *FINAL)  # it is with the installer, which nothing calls back


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What a device said last of an upgrade."""

    number: int
    phase: UpgradePhase
    version: str
    reason: str = ""
    progress: float = 0.0
    time: float = 0.0  # when it was heard


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """One bundle for some devices."""

    bundle: str
    size: int
    number: int
    version: str
    devices: tuple[str, ...]  # canaries first
    canary: Annotated[int, Meta(ge=0)] = 0
    wait_s: Annotated[float, Meta(ge=0)] = 0.0
    begun: float = 0.0
    stopped: str = ""  # why


def _phase(rollout: Rollout, device: str, heard: Mapping[str, Progress]) -> str:
    told = heard.get(device)
    return told.phase if told is not None and told.number == rollout.number else ""


def offered(rollout: Rollout, heard: Mapping[str, Progress], now: float) -> tuple[str, ...]:
    """The devices that are to be offered the bundle, or whose work on it goes on."""
    if rollout.stopped:
        return tuple(d for d in rollout.devices if _phase(rollout, d, heard) in BEGUN)
    if not rollout.canary or _opens(rollout, heard) <= now:
        return rollout.devices
    return rollout.devices[: rollout.canary]


def _opens(rollout: Rollout, heard: Mapping[str, Progress]) -> float:
    """When the devices after the canaries are offered it; infinity while canaries have not committed."""
    canaries = rollout.devices[: rollout.canary]
    if any(_phase(rollout, device, heard) != "committed" for device in canaries):
        return float("inf")
    return max(heard[device].time for device in canaries) + rollout.wait_s


def rollout_opens(rollout: Rollout, heard: Mapping[str, Progress]) -> float:
    """When the devices that are offered something now were offered it, the last ones."""
    opens = _opens(rollout, heard) if rollout.canary else rollout.begun
    return opens if opens < float("inf") else rollout.begun


def next_look(rollout: Rollout, heard: Mapping[str, Progress]) -> float:
    """When `offered` may change without a message."""
    return _opens(rollout, heard) if rollout.canary and not rollout.stopped else float("inf")


def why_stop(rollout: Rollout, heard: Mapping[str, Progress], unable: Mapping[str, str]) -> str:
    """Why the rollout must not go on, or nothing; `unable` are devices that take no upgrade, and why."""
    if not rollout.canary or rollout.stopped:
        return ""
    for place, device in enumerate(rollout.devices):
        if place < rollout.canary and device in unable:
            return f"{device}: refused: {unable[device]}"
        phase = _phase(rollout, device, heard)
        if phase == "back" or (phase == "refused" and place < rollout.canary):
            return f"{device}: {'went back' if phase == 'back' else 'refused'}: {heard[device].reason}"
    return ""


def stage_of(rollout: Rollout, device: str, heard: Mapping[str, Progress], now: float) -> str:
    """Where the upgrade of a device is, in a word."""
    phase = _phase(rollout, device, heard)
    if phase in BEGUN:
        return phase
    if rollout.stopped:
        return "withdrawn"
    return (phase or "offered") if device in offered(rollout, heard, now) else "waiting"
