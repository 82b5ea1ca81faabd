"""Opens a state folder: checks that it is intact, of this fleet, and that its models were signed with this key."""

from __future__ import annotations

from pathlib import Path

from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.state_check import check_before_opening, check_state
from core.errors import ConfigError
from wire.keys import load_private_key, public_key_hex

__all__ = ["open_state"]


def open_state(
    state: Path, *, fleet: str, key: Path, new_key: bool = False, timeout: float = 10.0
) -> tuple[Journal, Blobs]:
    """The journal and the blobs of the folder `state`, claimed for `fleet` and the signing key in the file `key`.

    `new_key`: the fleet has a new key; `timeout`: seconds to wait for another process that writes.
    """
    public = public_key_hex(load_private_key(key).public_key())
    check_before_opening(state)
    journal = Journal(state / "journal.db", timeout=timeout)
    _check_owner(journal, state, fleet)
    if not new_key:
        _check_key(journal, key, public)
    with journal.transaction():
        journal.put("fleet", fleet)
        journal.put("key", public)
    blobs = Blobs(state / "blobs")
    check_state(journal, blobs, state)
    return journal, blobs


def _check_owner(journal: Journal, state: Path, fleet: str) -> None:
    """Refuse the state folder of another fleet."""
    owner = journal.get("fleet", fleet)
    if owner != fleet:
        raise ConfigError(f"{state}: belongs to fleet {owner!r}; give fleet {fleet!r} a folder of its own")


def _check_key(journal: Journal, key: Path, public: str) -> None:
    """Refuse another signing key than the fleet began with: devices trust only that one."""
    signer = journal.get("key", public)
    if signer != public:
        raise ConfigError(
            f"{key}: not the key that signed this fleet's models ({signer[:16]}…); put that one back:"
            " devices trust no other. If all of them have the new one, start once with --new-key"
        )
