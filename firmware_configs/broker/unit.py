"""The systemd unit of a fleet's own Mosquitto: it runs as Mosquitto's user from the start, with few privileges."""

from __future__ import annotations

from firmware_configs.services.hardening import HARDENING

__all__ = ["UNITS", "broker_unit"]

UNITS = "/etc/systemd/system"
TEMPLATE = """\
[Unit]
Description=MQTT broker of the edgestill fleet {fleet}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={program} -c {conf}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5
TimeoutStopSec=15
User={user}
Group={group}
UMask=0077
LimitNOFILE=65536

ProtectHome=yes
PrivateDevices=yes
PrivateUsers=yes
MemoryDenyWriteExecute=yes
{hardening}
[Install]
WantedBy=multi-user.target
"""


def broker_unit(fleet: str, *, program: str, conf: str, user: str, group: str) -> str:
    """The unit edgestill-broker-FLEET.service."""
    return TEMPLATE.format(fleet=fleet, program=program, conf=conf, user=user, group=group, hardening=HARDENING)
