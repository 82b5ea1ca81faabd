"""Addresses at which predictions are served: loopback or a Unix socket; others only on request."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import TypeAlias

from core.errors import ConfigError

__all__ = ["LOOPBACK", "Address", "clear_socket", "parse_address"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Address: TypeAlias = "tuple[str, int] | Path"
MAX_PATH = 100  # bytes: the system allows 107


def parse_address(text: str, *, remote: bool = False) -> Address:
    """`127.0.0.1:9000`, `[::1]:9000` or `unix:/run/predict.sock`; other addresses only with `remote`.

    >>> parse_address("127.0.0.1:9000"), parse_address("unix:/run/predict.sock").name
    (('127.0.0.1', 9000), 'predict.sock')
    """
    if text.startswith("unix:"):
        if not text[5:] or len(os.fsencode(text[5:])) > MAX_PATH:
            raise ConfigError(f"--serve {text!r}: give a path of at most {MAX_PATH} bytes: unix:/run/predict.sock")
        return Path(text[5:])
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigError(f"--serve {text!r}: give an address and a port, 127.0.0.1:9000, or unix:/run/predict.sock")
    if host not in LOOPBACK and not remote:
        raise ConfigError(
            f"--serve {text!r}: everybody who reaches this address could use the model; give 127.0.0.1, "
            "or --allow-remote if that is what you want"
        )
    return host, int(port)


def clear_socket(path: Path) -> None:
    """Remove the socket that a killed server has left; another file, or a socket in use, is an error."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"--serve unix:{path}: {error.strerror or error}") from None
    if not stat.S_ISSOCK(kind):
        raise ConfigError(f"--serve unix:{path}: there is a file that is not a socket; give another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise ConfigError(f"--serve unix:{path}: {error.strerror or error}") from None
    raise ConfigError(f"--serve unix:{path}: another process serves it; stop that one, or give another path")
