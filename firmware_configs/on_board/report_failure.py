"""Tells the fleet why the installation on this board has failed: one signed message over MQTT, without edgestill.

    journalctl -u edgestill-firstboot -n 20 -o cat | python3 -I report_failure.py

Next to it are files of the kit: `report.json` ({"fleet", "device", "host", "port"}), the board's TLS files, and
`device.key`, with which openssl signs. A board that makes its own keys has none of them yet, so it reports nothing.
The message is an `Installing` (wire/messages.py) in an envelope (wire/envelope.py), published once, not retained:

    MessagePack ["installing", number, reason]

The number is kept in `report-number`, so that it increases although the clock of a board may be set back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import socket
import ssl
import struct
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main", "reason_of", "sealed"]

LONGEST = 200  # characters of a reason
TIMEOUT_S = 20.0
CONTEXT = b"edgestill envelope 1\0"
#: Of systemd, what pip says after an error, and what this script has said after an earlier attempt.
NOISE = re.compile(
    r"edgestill-firstboot\.service: |(Start|Stopp|Finish)(ed|ing) |Failed to start |Scheduled |WARNING: |\[notice\]"
    r"|edgestill: (told |the fleet could not be told: |this board has no keys yet)"
)
CONNACK, PUBACK = 0x20, 0x40


def reason_of(text: str) -> str:
    """The line of a log that tells best why install.sh has failed: the last error of pip, or the last line."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if line and not NOISE.match(line)]
    last = max((at for at, line in enumerate(lines) if line.startswith("edgestill: ")), default=-1)
    errors = [line for line in lines[last + 1 :] if line.startswith("ERROR: ")] or lines or ["no reason in the log"]
    reason = "".join(c if c.isprintable() else "?" for c in errors[-1])
    return reason.removeprefix("edgestill: ").removeprefix("ERROR: ")[:LONGEST] or "no reason in the log"


def sealed(key: Path, fleet: str, device: str, number: int, reason: str) -> bytes:
    """The envelope around the report, signed by openssl with the key in PEM at `key`."""
    head = b"\x94" + _text("installing") + _text(device) + b"\x00" + b"\xc4\x0c" + secrets.token_bytes(12)
    opening = bytes([1, len(head)]) + head
    payload = b"\x93" + _text("installing") + b"\xce" + struct.pack(">I", number) + _text(reason)
    digest = hashlib.sha256(opening + payload).digest()
    return opening + payload + _signature(key, CONTEXT + fleet.encode() + b"\0" + digest)


def _text(text: str) -> bytes:
    """A string as MessagePack, str 16: valid for every length."""
    data = text.encode(errors="replace")
    return b"\xda" + struct.pack(">H", len(data)) + data


def _signature(key: Path, data: bytes) -> bytes:
    """Ed25519. openssl wants a file with a size; this one needs no room on a disk, which may be full."""
    with os.fdopen(os.memfd_create("report"), "wb") as file:
        file.write(data)
        file.flush()
        command = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", str(key), "-in", f"/proc/self/fd/{file.fileno()}"]
        done = subprocess.run(command, capture_output=True, pass_fds=[file.fileno()], timeout=TIMEOUT_S, check=False)
    if done.returncode or len(done.stdout) != 64:
        raise OSError(f"openssl does not sign: {done.stderr.decode(errors='replace').strip()[:LONGEST]}")
    return done.stdout


def publish(here: Path, host: str, port: int, client: str, topic: str, payload: bytes) -> None:
    """Publish one message over TLS with the board's certificate; returns when the broker has it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(here / "tls/ca.pem")
    context.load_cert_chain(here / "tls/device.pem", here / "tls/device.key")
    plain = socket.create_connection((host, port), TIMEOUT_S)
    with context.wrap_socket(plain, server_hostname=host) as link:
        hello = _string("MQTT") + b"\x04\x02" + struct.pack(">H", 60) + _string(client)  # 3.1.1, a clean session
        link.sendall(_packet(0x10, hello))
        if _answer(link, CONNACK)[1] != 0:
            raise OSError("the broker refuses this board")
        link.sendall(_packet(0x32, _string(topic) + b"\x00\x01" + payload))
        _answer(link, PUBACK)
        link.sendall(_packet(0xE0, b""))


def _packet(kind: int, body: bytes) -> bytes:
    length, left = b"", len(body)
    while left > 127:
        length += bytes([left & 127 | 128])
        left >>= 7
    return bytes([kind]) + length + bytes([left]) + body


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def _answer(link: ssl.SSLSocket, kind: int) -> bytes:
    """The two bytes of a CONNACK or a PUBACK, which is all that a broker answers here."""
    data = b""
    while len(data) < 4:
        piece = link.recv(4 - len(data))
        if not piece:
            raise OSError("the broker has closed the connection")
        data += piece
    if data[0] != kind or data[1] != 2:
        raise OSError("the broker answers something else")
    return data[2:]


def next_number(path: Path, now: float) -> int:
    """The time, or the previous number plus one, whichever is larger; kept at `path`, if there is room."""
    try:
        before = int(path.read_text())
    except (OSError, ValueError):
        before = 0
    number = min(max(int(now), before + 1, 1), 2**32 - 1)
    with contextlib.suppress(OSError):
        path.write_text(str(number))
    return number


def main(here: Path, log: str) -> str:
    """Report; returns what was done, in one line."""
    facts = json.loads((here / "report.json").read_text())
    fleet, device = facts["fleet"], facts["device"]
    if not (here / "device.key").is_file():
        return "this board has no keys yet, so its fleet is not told"
    reason = reason_of(log)
    message = sealed(here / "device.key", fleet, device, next_number(here / "report-number", time.time()), reason)
    publish(here, facts["host"], facts["port"], device, f"edgestill/1/{fleet}/{device}/installing", message)
    return f"told {facts['host']}: {reason}"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"edgestill: {main(Path(__file__).resolve().parent, sys.stdin.read())}\n")
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"edgestill: the fleet could not be told: {' '.join(str(error).split())}\n")
        sys.exit(1)
