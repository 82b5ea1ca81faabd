"""Typed messages to bytes and back."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from core.errors import EnvelopeError
from wire.messages import About, Accepted, Ack, Job, Message, Missing, ModelHeader, Offer, Rejected

__all__ = ["MAX_MESSAGE", "decode_ack", "decode_instruction", "decode_message", "encode_message"]

#: Bytes of one message. The largest lists 10,000 label counts.
MAX_MESSAGE = 128 * 1024
LONGEST = 200  # characters of a refusal
M = TypeVar("M", bound=Message)
_encoder = msgspec.msgpack.Encoder()
_ACKS = {_encoder.encode(kind.__struct_config__.tag): kind for kind in (Accepted, Rejected, Missing)}
_OFFER = _encoder.encode(Offer.__struct_config__.tag)
#: Last fields that are not sent while they are None.
_OPTIONAL: dict[type[Message], str] = {Rejected: "why", ModelHeader: "task", About: "data"}
_PATH = re.compile(r" - at `(\$[^`]*)`$")


def encode_message(message: Message) -> bytes:
    """The bytes of a message; refuses one that `decode_message` would refuse."""
    kind = type(message)
    try:
        data = _encoder.encode(_to_send(message))
    except (TypeError, ValueError, OverflowError) as exc:
        raise EnvelopeError(f"{kind.__name__}: cannot be sent: {exc}") from None
    decode_message(data, kind)
    return data


def decode_message(data: bytes, kind: type[M], *, max_bytes: int = MAX_MESSAGE) -> M:
    """The message of type `kind` in `data`; `EnvelopeError` names the field that is wrong."""
    return _decode(data, kind, kind.__name__, max_bytes)  # type: ignore[no-any-return]


def decode_ack(data: bytes, *, max_bytes: int = MAX_MESSAGE) -> Ack:
    """The answer to an update: `Accepted`, `Rejected` or `Missing`."""
    for tag, kind in _ACKS.items():
        if data[1 : 1 + len(tag)] == tag:  # after the one byte that opens the array
            return _decode(data, kind, kind.__name__, max_bytes)  # type: ignore[no-any-return]
    raise EnvelopeError("Ack: must be accepted, rejected or missing")


def decode_instruction(data: bytes, *, max_bytes: int = MAX_MESSAGE) -> Job | Offer:
    """The content of a job topic: a `Job` or an `Offer`."""
    kind = Offer if data[1 : 1 + len(_OFFER)] == _OFFER else Job
    return _decode(data, kind, kind.__name__, max_bytes)  # type: ignore[no-any-return]


def _to_send(message: Message) -> Any:
    """The message without a trailing field that older readers refuse, if the field is empty."""
    last = _OPTIONAL.get(type(message))
    if last is not None and getattr(message, last) is None:
        return (message.__struct_config__.tag, *msgspec.structs.astuple(message)[:-1])
    return message


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def _decode(data: bytes, kind: Any, name: str, max_bytes: int) -> Any:
    if len(data) > max_bytes:
        raise EnvelopeError(f"{name}: message of {len(data)} bytes, at most {max_bytes} are allowed")
    try:
        return _decoder(kind).decode(data)
    except msgspec.ValidationError as exc:
        raise EnvelopeError(_shown(_explain(str(exc), kind, name))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise EnvelopeError(_shown(f"{name}: not a MessagePack message: {exc}")) from None


def _explain(text: str, kind: Any, name: str) -> str:
    """Replace msgspec's `$[3]` by the field's name. Element 0 of a tagged message is its tag."""
    found = _PATH.search(text)
    if not found:
        return f"{name}: {text}"
    what, path = text[: found.start()], found[1]
    for index in re.findall(r"\[(\d+|\.\.\.)\]", path):
        fields = _fields(kind)
        if index == "..." or not 0 <= int(index) < len(fields):
            break
        name += f".{fields[int(index)]}"
        kind = _type_of(kind, fields[int(index)])
    return f"{name}: {what}"


def _shown(text: str) -> str:
    """One printable line of bounded length: msgspec quotes untrusted input."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _fields(kind: Any) -> tuple[str, ...]:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return ()
    tag = ("tag",) if kind.__struct_config__.tag is not None else ()
    return tag + kind.__struct_fields__


def _type_of(kind: Any, field: str) -> Any:
    return next((f.type for f in msgspec.structs.fields(kind) if f.name == field), None)
