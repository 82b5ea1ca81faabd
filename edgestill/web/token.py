"""The token that logs an operator in: shown once, stored as its SHA-256.

    state/web-token.json    {"sha256": "9f86…", "created": 1760000000.0}, mode 0600

A token has 256 bits of chance, so a plain hash is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from pathlib import Path

from core.errors import ConfigError
from core.files import write_atomic

__all__ = ["has_token", "is_token", "make_token"]

FILE = "web-token.json"
LONGEST = 200  # characters that are hashed


def make_token(state: Path) -> str:
    """A new token, which replaces the one before; the only time that it can be read."""
    token = secrets.token_urlsafe(32)
    facts = {"sha256": _digest(token), "created": time.time()}
    write_atomic(state / FILE, json.dumps(facts) + "\n", mode=0o600)
    return token


def has_token(state: Path) -> bool:
    """Whether there is one."""
    return (state / FILE).is_file()


def is_token(state: Path, text: str) -> bool:
    """Whether `text` is the token, in a time that does not tell how much of it is right."""
    try:
        stored = json.loads((state / FILE).read_text())["sha256"]
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{state / FILE}: damaged ({error}); make a new one: edgestill web token") from None
    return hmac.compare_digest(str(stored), _digest(text.strip()[:LONGEST]))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
