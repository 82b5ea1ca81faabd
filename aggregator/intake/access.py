"""Access control: only known devices that are neither revoked nor muted; and their signed reports."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from wire.board_reports import LogTail, Telemetry
from wire.codec import decode_message
from wire.envelope import open_envelope
from wire.keys import Ed25519PublicKey
from wire.messages import About, Installing, Metrics, Reported, State, Upgraded
from wire.topics import DeviceTopic

__all__ = ["Gate", "Spoken"]

log = logging.getLogger("edgestill.aggregator")
Spoken = State | About | Metrics | Telemetry | LogTail | Reported | Installing | Upgraded
KINDS: dict[str, type[Spoken]] = {
    "state": State,
    "about": About,
    "metrics": Metrics,
    "telemetry": Telemetry,
    "log": LogTail,
    "reported": Reported,
    "installing": Installing,
    "upgraded": Upgraded,
}
MAX_BYTES = 256 * 1024  # of a device's report


class Gate:
    """Checks identities, counts garbage, mutes."""

    def __init__(
        self,
        keys: Mapping[str, Ed25519PublicKey],
        *,
        fleet: str,
        garbage_before_mute: int,
        mute_s: float,
        now: Callable[[], float],
    ) -> None:
        self._keys, self._fleet, self._now = keys, fleet, now
        self._learned: dict[str, Ed25519PublicKey] = {}
        self._limit, self._mute_s = garbage_before_mute, mute_s
        self._garbage: Counter[str] = Counter()
        self._muted: dict[str, float] = {}
        self._strangers: set[str] = set()

    def key(self, device: str) -> Ed25519PublicKey | None:
        """The key of a device that is currently allowed to send."""
        if self.muted(device):
            return None
        key = self._keys.get(device)
        if key is None and device not in self._strangers and len(self._strangers) < 1000:
            self._strangers.add(device)
            log.warning("device %r is not in [devices]: it is not listened to", device, extra={"device": device})
        return key

    def knows(self, device: str) -> bool:
        """Whether the device has a key here."""
        return device in self._keys

    @property
    def known(self) -> Collection[str]:
        """All devices that have a key here."""
        return self._keys.keys()

    def muted(self, device: str) -> bool:
        """Whether the device is muted now."""
        return self._muted.get(device, 0.0) > self._now()

    def open(self, topic: DeviceTopic, payload: bytes) -> Spoken | None:
        """The message of a device, if its signature is valid; None for other topics."""
        kind = KINDS.get(topic.leaf)
        key = self.key(topic.device)
        if kind is None or key is None or not payload:
            return None
        envelope = open_envelope(
            payload, public_key=key, fleet=self._fleet, sender=topic.device, kinds=(topic.leaf,), max_bytes=MAX_BYTES
        )
        return decode_message(envelope.payload, kind)

    def learn(self, device: str, key: Ed25519PublicKey) -> None:
        """A device has enrolled: this is its key from here on."""
        self._learned[device] = key
        self._keys = {**self._keys, device: key}
        self._strangers.discard(device)

    def use(self, keys: Mapping[str, Ed25519PublicKey], *, garbage_before_mute: int, mute_s: float) -> None:
        """Other devices and limits from now on; those that have enrolled since the start stay."""
        self._keys = {**self._learned, **keys}
        self._limit, self._mute_s = garbage_before_mute, mute_s
        self._strangers -= self._keys.keys()

    def garbage(self, device: str) -> float | None:
        """Count an unusable message; returns until when the device is muted, if it was one too many."""
        self._garbage[device] += 1
        if self._garbage[device] < self._limit:
            return None
        self._garbage[device] = 0
        return self.mute(device, self._now() + self._mute_s)

    def mute(self, device: str, until: float) -> float:
        """Mute the device for a while."""
        self._muted[device] = until
        return until

    def good(self, device: str) -> None:
        """The device has sent a usable message: reset its count."""
        self._garbage.pop(device, None)
