"""Tells an envelope seen before from a new one, in bounded memory.

A recorded envelope stays validly signed, and QoS 1 delivers some twice. The guard keeps, per sender and kind, the
nonces of the newest `keep_rounds` rounds; an envelope of an older round is refused whatever its nonce, so that the
older nonces can be forgotten. Within the kept rounds at most `max_nonces` are remembered; past that, the oldest
round is given up first. Only a sender that fills one single round with more can have an own, older envelope of that
round accepted again.

The sender must have been verified: only then is the number of streams bounded by the fleet and not by an attacker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.errors import EnvelopeError
from wire.envelope import Envelope

__all__ = ["ReplayGuard"]


@dataclass(slots=True)
class _Stream:
    floor: int = 0  # rounds below are refused
    seen: dict[int, dict[bytes, None]] = field(default_factory=dict)  # round -> nonces in order of arrival
    count: int = 0


class ReplayGuard:
    """Remembers the nonces of verified envelopes."""

    def __init__(self, *, keep_rounds: int = 3, max_nonces: int = 1024, max_streams: int = 65_536) -> None:
        if min(keep_rounds, max_nonces, max_streams) < 1:
            raise ValueError("keep_rounds, max_nonces and max_streams must be at least 1")
        self._keep_rounds, self._max_nonces, self._max_streams = keep_rounds, max_nonces, max_streams
        self._streams: dict[tuple[str, str], _Stream] = {}

    def admit(self, envelope: Envelope) -> bool:
        """True the first time, False for a repetition; `EnvelopeError` if its round is too long ago to tell."""
        stream = self._stream(envelope)
        if envelope.round < stream.floor:
            who = f"{envelope.kind} of {envelope.sender!r}"
            raise EnvelopeError(f"{who}: round {envelope.round} is over, {stream.floor} is the oldest kept")
        nonces = stream.seen.setdefault(envelope.round, {})
        if envelope.nonce in nonces:
            return False
        nonces[envelope.nonce] = None
        stream.count += 1
        self._raise_floor(stream, max(stream.seen) - self._keep_rounds + 1)
        self._shrink(stream)
        return True

    def __len__(self) -> int:
        """How many nonces are remembered."""
        return sum(stream.count for stream in self._streams.values())

    def _stream(self, envelope: Envelope) -> _Stream:
        key = envelope.sender, envelope.kind
        if key not in self._streams and len(self._streams) >= self._max_streams:
            raise EnvelopeError(f"{envelope.kind} of {envelope.sender!r}: over {self._max_streams} senders and kinds")
        return self._streams.setdefault(key, _Stream())

    def _raise_floor(self, stream: _Stream, floor: int) -> None:
        stream.floor = max(stream.floor, floor)
        for old in [r for r in stream.seen if r < stream.floor]:
            stream.count -= len(stream.seen.pop(old))

    def _shrink(self, stream: _Stream) -> None:
        while stream.count > self._max_nonces:
            if len(stream.seen) > 1:
                self._raise_floor(stream, min(stream.seen) + 1)
                continue
            (nonces,) = stream.seen.values()
            del nonces[next(iter(nonces))]
            stream.count -= 1
