"""MessagePack values, mutated by structure: other types, bounds, NaN, nesting, and bytes that no encoder writes."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec

__all__ = ["encode_mutant", "mutate_value"]

#: Bytes. A message that a device publishes in one packet is never longer: the broker would close its connection.
MOST = 1_900_000


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


POOL: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**32 - 1,
    2**32,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**31),
    -(2**63),
    0.0,
    -0.0,
    0.5,
    5e-324,
    1e308,
    -1e308,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "a",
    "x" * 200,
    "x" * 201,
    "x" * 5000,
    "\x1b[31mred\x07",
    "two\nlines",
    "\0",
    "é" * 100,
    "🤖",
    "[/red]",
    "online",
    "lost",
    "pi-0",
    "aggregator",
    "all",
    "mlp:fp32",
    "cnn:w1",
    "no:such",
    "0" * 64,
    "../../etc",
    b"",
    b"\0" * 12,
    b"x" * 5000,
    [],
    [[]],
    [2**53] * 2000,
    [0] * 10_001,
    _nested(60),
    {},
    {"": ""},
    {"a": math.nan},
    {"a": {"b": {}}},
    {str(i): "x" for i in range(65)},
    {1: 2},
    msgspec.msgpack.Ext(1, b"x"),
    msgspec.msgpack.Ext(-1, bytes(4)),
)
#: What no encoder would write, or nobody would send.
RAW: tuple[bytes, ...] = (
    b"",
    b"\xc1",
    b"\x91" * 5000,
    b"\x81\xa0" * 5000,
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xffabc",
    b"\xc6\xff\xff\xff\xffabc",
    b"\xa4\xff\xfe\xfd\xfc",
    b"\x82\xa1a\x01\xa1a\x02",
    b"\xc9\xff\xff\xff\xff\x01",
)


def mutate_value(rng: random.Random, value: Any) -> Any:
    """A value with one place changed; lists and dicts are mostly gone into."""
    if isinstance(value, list | tuple) and value and rng.random() < 0.8:
        return _mutate_list(rng, list(value))
    if isinstance(value, dict) and value and rng.random() < 0.8:
        return _mutate_dict(rng, dict(value))
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.4:
        return rng.choice([value + 1, value - 1, -value, value * 2**20, float(value), str(value)])
    if isinstance(value, str) and value and rng.random() < 0.4:
        return rng.choice([value[:-1], value + value[-1], value.upper(), value + "\n", value.encode(), " " + value])
    return rng.choice(POOL)


def _mutate_list(rng: random.Random, value: list[Any]) -> list[Any]:
    at = rng.randrange(len(value))
    match rng.choice(["change"] * 6 + ["drop", "double", "insert", "swap", "more", "most"]):
        case "change":
            value[at] = mutate_value(rng, value[at])
        case "drop":
            del value[at]
        case "double":
            value.insert(at, value[at])
        case "insert":
            value.insert(at, rng.choice(POOL))
        case "swap":
            other = rng.randrange(len(value))
            value[at], value[other] = value[other], value[at]
        case "most" if all(isinstance(item, int) for item in value):  # each within its bounds, their sum is not
            value = [2**53] * rng.choice([3, 1100, 2000])
        case "more":
            value += [rng.choice(POOL)] * rng.choice([1, 100, 5000])
    return value


def _mutate_dict(rng: random.Random, value: dict[Any, Any]) -> dict[Any, Any]:
    key = rng.choice(list(value))
    match rng.choice(["change", "key", "drop", "more"]):
        case "change":
            value[key] = mutate_value(rng, value[key])
        case "key":
            value[rng.choice(["", "x" * 201, "\x1b[2J", 7])] = value.pop(key)
        case "drop":
            del value[key]
        case "more":
            value.update({f"k{i}": value[key] for i in range(rng.choice([1, 70]))})
    return value


def encode_mutant(rng: random.Random, value: Any) -> bytes:
    """The bytes of a mutated value, cut to `MOST`; now and then something is put into them that is no value at all."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        value = mutate_value(rng, value)
    try:
        data = msgspec.msgpack.encode(value)
    except (OverflowError, TypeError, ValueError):  # an integer that MessagePack does not have
        data = msgspec.msgpack.encode(None)
    if rng.random() < 0.1:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(RAW) + data[at + rng.choice([0, 0, 1, 5]) :]
    return data[:MOST]
