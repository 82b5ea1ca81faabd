"""All MQTT topics of edgestill are defined here.

    edgestill/1/{fleet}/{device}/state                   up, retained
    edgestill/1/{fleet}/{device}/about                   up, retained
    edgestill/1/{fleet}/{device}/job                     down, retained
    edgestill/1/{fleet}/{device}/ack                     down
    edgestill/1/{fleet}/{device}/metrics                 up
    edgestill/1/{fleet}/{device}/telemetry               up: its work and its board, every few seconds
    edgestill/1/{fleet}/{device}/ask                     down: a request for the end of its log
    edgestill/1/{fleet}/{device}/log                     up: the answer
    edgestill/1/{fleet}/{device}/desired                 down, retained: settings
    edgestill/1/{fleet}/{device}/reported                up, retained: which were applied
    edgestill/1/{fleet}/{device}/installing              up: why a board could not install its agent
    edgestill/1/{fleet}/{device}/upgrade                 down, retained: another version of edgestill to install
    edgestill/1/{fleet}/{device}/upgraded                up, retained: how far that is
    edgestill/1/{fleet}/{device}/enrol                   up: a board that has no certificate yet
    edgestill/1/{fleet}/{device}/enrolled                down, retained until it is online: the answer
    edgestill/1/{fleet}/{device}/predict                 down: a request for predictions, if the device answers them
    edgestill/1/{fleet}/{device}/predicted               up: the answer
    edgestill/1/{fleet}/{device}/up                      up: chunks of updates, with transfer id and number
    edgestill/1/{fleet}/{device}/up/{transfer}/{n}       up: the same, as agents of 0.1 send them
    edgestill/1/{fleet}/all/model/{digest}/{n}           down, retained while current: chunk n of an artifact
    edgestill/1/{fleet}/all/probe                        of the aggregator to itself, retained for seconds

Ids are `[a-z0-9-]{1,48}`, a digest is 64 hex digits, n is decimal without leading zeros. The device is a level of its
own, as broker ACL patterns require. Six slashes and 150 bytes at most: the strictest hosted brokers allow seven and
256. A device writes to a fixed handful of topics: no broker limits how many messages one client may have retained, but
an access list without wildcards does (firmware_configs/broker/mosquitto.py).

A topic is a frozen value, validated when constructed, and `parse(str(t)) == t`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from core.errors import TopicError, did_you_mean
from wire.ids import ALL, check_device, check_digest, check_id

__all__ = [
    "DeviceTopic",
    "Leaf",
    "ModelChunk",
    "Topic",
    "UpdateChunk",
    "agent_filters",
    "aggregator_filters",
    "parse",
    "probe_filter",
    "probe_topic",
]

ROOT = "edgestill"
VERSION = "1"
MAX_BYTES = 256
MAX_NUMBER = 10**9 - 1
NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")

Leaf = Literal[
    "state",
    "about",
    "job",
    "ack",
    "metrics",
    "telemetry",
    "ask",
    "log",
    "desired",
    "reported",
    "installing",
    "upgrade",
    "upgraded",
    "enrol",
    "enrolled",
    "predict",
    "predicted",
    "up",
]
LEAVES: tuple[Leaf, ...] = get_args(Leaf)


@dataclass(frozen=True, slots=True)
class DeviceTopic:
    """A topic that exists once per device, such as `state`."""

    fleet: str
    device: str
    leaf: Leaf

    def __post_init__(self) -> None:
        check_id(self.fleet, "fleet")
        check_device(self.device)
        if self.leaf not in LEAVES:
            raise TopicError(f"topic of {self.device!r}: no {self.leaf!r}{did_you_mean(str(self.leaf), LEAVES)}")

    def __str__(self) -> str:
        return f"{ROOT}/{VERSION}/{self.fleet}/{self.device}/{self.leaf}"


@dataclass(frozen=True, slots=True)
class UpdateChunk:
    """Chunk `n` of an uploaded update, as a topic; `wire/uplink.py` maps any chunk to one."""

    fleet: str
    device: str
    transfer: str
    n: int

    def __post_init__(self) -> None:
        check_id(self.fleet, "fleet")
        check_device(self.device)
        check_id(self.transfer, "transfer")
        _check_number(self.n)

    def __str__(self) -> str:
        return f"{ROOT}/{VERSION}/{self.fleet}/{self.device}/up/{self.transfer}/{self.n}"


@dataclass(frozen=True, slots=True)
class ModelChunk:
    """Chunk `n` of an artifact published to the whole fleet."""

    fleet: str
    digest: str
    n: int

    def __post_init__(self) -> None:
        check_id(self.fleet, "fleet")
        check_digest(self.digest)
        _check_number(self.n)

    def __str__(self) -> str:
        return f"{ROOT}/{VERSION}/{self.fleet}/{ALL}/model/{self.digest}/{self.n}"


Topic: TypeAlias = DeviceTopic | UpdateChunk | ModelChunk


def parse(text: str) -> Topic:
    """Parse a topic; `TopicError` names the rule that `text` breaks."""
    _check_text(text)
    levels = text.split("/")
    if levels[:2] != [ROOT, VERSION]:
        raise TopicError(f"topic {text!r}: does not start with {ROOT}/{VERSION}/")
    match levels[2:]:
        case [fleet, device, "up", transfer, n]:
            return UpdateChunk(fleet, device, transfer, _number(n, text))
        case [fleet, "all", "model", digest, n]:
            return ModelChunk(fleet, digest, _number(n, text))
        case [fleet, device, leaf] if leaf in LEAVES:
            return DeviceTopic(fleet, device, leaf)
    raise TopicError(f"topic {text!r}: not one of edgestill's; see wire/topics.py")


def agent_filters(fleet: str, device: str) -> tuple[str, ...]:
    """The initial subscriptions of a device; chunks of artifacts follow when jobs name them.

    They include its own state: the will of a broken connection may arrive after the next connection's `online`.
    `desired`, `ask` and `upgrade` are subscribed to after connecting: an older access list may refuse them.
    """
    return tuple(str(DeviceTopic(fleet, device, leaf)) for leaf in ("job", "ack", "state"))


def aggregator_filters(fleet: str) -> tuple[str, ...]:
    """The subscriptions of the aggregator: everything that devices of the fleet send."""
    check_id(fleet, "fleet")
    reports = ("state", "about", "metrics", "telemetry", "log", "reported", "installing", "upgraded")
    ends = (*reports, "enrol", "up", "up/+/+")
    return tuple(f"{ROOT}/{VERSION}/{fleet}/+/{end}" for end in ends)


def probe_topic(fleet: str) -> str:
    """Where the aggregator tries what the broker does with retained messages."""
    check_id(fleet, "fleet")
    return f"{ROOT}/{VERSION}/{fleet}/{ALL}/probe"


def probe_filter(fleet: str) -> str:
    """A subscription with a wildcard that matches it, and no other topic."""
    check_id(fleet, "fleet")
    return f"{ROOT}/{VERSION}/{fleet}/+/probe"


def _check_text(text: str) -> None:
    size = len(text.encode(errors="surrogatepass"))
    if not text or size > MAX_BYTES:
        raise TopicError(f"topic of {size} bytes: must have 1 to {MAX_BYTES}")
    for char, why in (("\0", "NUL"), ("+", "wildcard"), ("#", "wildcard")):
        if char in text:
            raise TopicError(f"topic {text!r}: {why} {char!r} is not allowed in a topic")
    if text.startswith("$"):
        raise TopicError(f"topic {text!r}: a leading '$' belongs to the broker")


def _check_number(n: int) -> None:
    if type(n) is not int or not 0 <= n <= MAX_NUMBER:
        raise TopicError(f"chunk number {n!r}: must lie in 0 .. {MAX_NUMBER}")


def _number(text: str, topic: str) -> int:
    if not NUMBER.fullmatch(text):
        raise TopicError(f"topic {topic!r}: {text!r} is not a chunk number")
    return int(text)
