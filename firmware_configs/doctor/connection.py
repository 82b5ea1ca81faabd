"""The broker, checked without taking the place of the running agent.

A broker that `edgestill provision` has configured makes the certificate's common name the client id. A CONNECT with the
board's certificate therefore throws the running agent off, and its will declares the device lost in mid-round. So with
a client certificate the check ends with the TLS handshake: address, both certificates, revocation and clock are tested;
the access list is not. Whether the agent itself is connected is what it reports to systemd.
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone

from core.errors import EdgestillError
from core.files import read_regular
from edge_agent.config import AgentConfig
from firmware_configs.doctor.findings import Finding, Level
from firmware_configs.identity.ca import MAX_PEM
from firmware_configs.identity.identities import RENEW_BEFORE, ends
from firmware_configs.kits.unit import NAME
from transport.probe import shake_hands, speaks_mqtt5
from transport.reasons import explain

__all__ = ["check_agent", "check_broker", "check_certificate"]

SYSTEMCTL_S = 5.0


def check_certificate(config: AgentConfig) -> Iterator[Finding]:
    """How long the board's certificate is still valid."""
    tls = config.broker.tls
    if tls is None:
        yield Finding("warning", "certificate", "the broker is reached without TLS")
    elif tls.cert is not None:
        left = ends(read_regular(tls.cert, MAX_PEM)) - datetime.now(timezone.utc)
        days = f"{left.days} days left"
        level: Level = "failure" if left.total_seconds() < 0 else "warning" if left < RENEW_BEFORE else "ok"
        yield Finding(level, "certificate", days if level == "ok" else f"{days}; edgestill provision --renew")


def check_agent(config: AgentConfig) -> Iterator[Finding]:
    """Whether an agent runs on this state folder, and what it says of its connection; nothing if none runs."""
    if not _locked(config):
        return
    status = _status()
    if status.startswith("looking for the broker"):
        yield Finding("warning", "agent", f"runs, but is {status}; journalctl -u {NAME} says why it is not connected")
    else:
        yield Finding("ok", "agent", f"runs, {status}" if status else "runs")


def check_broker(config: AgentConfig) -> Finding:
    """Whether the broker answers, and accepts the board's certificate."""
    tls = config.broker.tls
    try:
        if tls is not None and tls.cert is not None:
            shake_hands(config.broker)
            return Finding("ok", "broker", f"{config.broker} answers, and accepts this board's certificate")
        five = speaks_mqtt5(config.broker)  # without a certificate the probe has no client id
    except EdgestillError as error:
        return Finding("failure", "broker", str(error))
    except OSError as error:
        return Finding("failure", "broker", f"{config.broker}: {explain(error)}")
    return Finding("ok", "broker", f"{config.broker} answers, MQTT {'5' if five else '3.1.1'}")


def _locked(config: AgentConfig) -> bool:
    try:
        with (config.state_dir / "agent.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # none has run, or only its own user may look
    return False


def _status() -> str:
    """The agent's last status in systemd; empty if it was not started by it."""
    command = ["systemctl", "show", "--property", "StatusText", "--value", NAME]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SYSTEMCTL_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
