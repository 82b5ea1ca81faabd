"""`edgestill broker`: the embedded broker, for a first try on one machine."""

from __future__ import annotations

import json
import signal
from typing import Annotated

import typer

from edgestill.output import err, out

__all__ = ["broker"]

LACKS = """For demos on this machine only. What it lacks, and Mosquitto has:
  - other machines: it listens on loopback alone, without passwords and without TLS
  - MQTT 5, limits of packets and queues, redelivery of unacknowledged messages
  - the last will of a device that falls silent without closing its connection
  - memory: what is retained is gone when it stops
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def broker(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 1883,
    host: Annotated[str, typer.Option(help="127.0.0.1, ::1 or localhost: nothing else is allowed.")] = "127.0.0.1",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not say what it lacks.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help='Print one line of JSON, {"host": ..., "port": ...}.')
    ] = False,
) -> None:
    """Run a small MQTT broker on this machine, for demos; Ctrl-C stops it.

    For a fleet of boards, install Mosquitto: agents and aggregator work with it unchanged.

    Example:  edgestill broker --port 1883
    """
    from transport.embedded import EmbeddedBroker

    server = EmbeddedBroker(port, host)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # before its thread starts, so that sigwait gets them
    try:
        with server:
            if as_json:
                out.file.write(json.dumps({"host": server.host, "port": server.port}) + "\n")
            else:
                out.print(f"broker on {server.host}:{server.port} (MQTT 3.1.1); Ctrl-C stops it", soft_wrap=True)
                if not quiet:
                    err.print(LACKS, end="", soft_wrap=True, style="dim")
            out.file.flush()
            signal.sigwait(SIGNALS)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
