"""host:port, as flags and settings have it."""

from __future__ import annotations

import ipaddress

from core.errors import ConfigError

__all__ = ["is_loopback", "parse_address"]

LOCAL = "127.0.0.1"


def parse_address(text: str) -> tuple[str, int]:
    """Host and port; a port alone means 127.0.0.1.

    >>> parse_address("127.0.0.1:9464"), parse_address(":9464"), parse_address("[::1]:9464")
    (('127.0.0.1', 9464), ('127.0.0.1', 9464), ('::1', 9464))
    """
    host, _, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535) or (
        ":" in host and not bracketed
    ):
        raise ConfigError(f"{text!r} is no address; write host:port, such as 127.0.0.1:9464")
    return host.strip("[]") or LOCAL, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
