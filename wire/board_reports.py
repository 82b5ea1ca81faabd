"""What a board says of its work and of itself while a round goes on, and the end of its log if the operator asks.

    Telemetry  up    stage of the work, temperature, throttling, load, memory, disk, battery
    Ask        down  send the newest lines of the log
    LogTail    up    these lines

Aggregators of an older version do not subscribe to them, and agents of an older version do not answer `Ask`. The
conventions are those of `wire/messages.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from wire.messages import Amount, Count, Id, Message

__all__ = ["LOG_LINES", "LONGEST_LINE", "Ask", "LogTail", "Stage", "Telemetry"]

#: Lines of a log that are sent at most, and characters of each: 200 KB even if each has four bytes.
LOG_LINES, LONGEST_LINE = 200, 250

Stage: TypeAlias = Literal["idle", "fetching", "training", "waiting", "uploading"]
Line: TypeAlias = Annotated[str, Meta(max_length=LONGEST_LINE)]


class Telemetry(Message, frozen=True, kw_only=True, tag="telemetry"):
    """The present state of a device; None for values that the board cannot measure."""

    round: Count = 0  # of the work; 0: none
    stage: Stage = "idle"  # waiting: before another attempt to train
    done: Count = 0  # chunks of a model or an update, or steps of training
    total: Count = 0  # of them; 0: not known
    temperature_c: Annotated[float, Meta(ge=-273.15, le=1000)] | None = None
    throttled: bool | None = None  # the processor is slowed down now, by heat or by its power supply
    undervoltage: bool | None = None  # the power supply is too weak now
    load: Amount | None = None  # processes that want to run, mean of one minute
    processors: Count | None = None
    memory_mb: Amount | None = None  # that programs may still take
    memory_total_mb: Amount | None = None
    disk_mb: Amount | None = None  # free where the state folder is
    battery: Annotated[float, Meta(ge=0, le=1)] | None = None  # its charge
    on_battery: bool | None = None


class Ask(Message, frozen=True, kw_only=True, tag="ask"):
    """Send the newest lines of your log.

    It names its device, because otherwise one signature would be valid for every device; the number only increases, so
    that a repetition is not answered.
    """

    device: Id
    number: Annotated[int, Meta(ge=1, le=2**53)]
    lines: Annotated[int, Meta(ge=1, le=LOG_LINES)] = LOG_LINES


class LogTail(Message, frozen=True, kw_only=True, tag="log"):
    """The answer to the `Ask` of this number, oldest line first."""

    number: Annotated[int, Meta(ge=1, le=2**53)]
    lines: Annotated[tuple[Line, ...], Meta(max_length=LOG_LINES)] = ()
    withheld: bool = False  # agent.toml says that no line leaves the board
