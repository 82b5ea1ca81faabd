"""The aggregator's systemd unit: ready when its loop turns, restarted when that hangs, with few privileges.

It writes its state folder and nothing else. Exit codes 2 and 3 (usage, configuration) are not tried again: a restart
does not change a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firmware_configs.services.hardening import HARDENING

__all__ = ["aggregator_unit", "unit_name"]

VAR_LIB = Path("/var/lib")
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
TEMPLATE = """\
[Unit]
Description=edgestill aggregator of the fleet {fleet}
Wants=network-online.target
After=network-online.target time-sync.target {broker}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={program} aggregator serve --config {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 3
TimeoutStartSec=300
WatchdogSec=120
TimeoutStopSec=60
KillMode=mixed
User={user}
Group={group}
UMask=0077
LimitNOFILE=4096
{state}
ProtectHome={home}
{devices}
{hardening}
[Install]
WantedBy=multi-user.target
"""


def unit_name(fleet: str) -> str:
    """The unit's file: one for each fleet."""
    return f"edgestill-aggregator-{fleet}.service"


def aggregator_unit(
    fleet: str,
    *,
    program: Path,
    config: Path,
    state: Path,
    reads: Sequence[Path],
    writes: Sequence[Path] = (),
    user: str,
    group: str,
    accelerator: bool = False,
) -> str:
    """The unit of one fleet; `reads` are its other files, `writes` folders besides the state, all paths absolute."""
    homes = "yes"
    if any(path.is_relative_to(home) for path in (program, config, *reads) for home in HOMES):
        homes = "read-only"
    devices = "SupplementaryGroups=video render" if accelerator else "PrivateDevices=yes\nPrivateUsers=yes"
    return TEMPLATE.format(
        fleet=fleet,
        broker=f"mosquitto.service edgestill-broker-{fleet}.service",
        program=_word(program),
        config=_word(config),
        user=user,
        group=group,
        state="\n".join([_state(state), *(f"ReadWritePaths={_word(path)}" for path in writes)]),
        home=homes,
        devices=devices,
        hardening=HARDENING,
    )


def _state(state: Path) -> str:
    """systemd makes a folder of /var/lib by itself; others are there already."""
    if state.is_relative_to(VAR_LIB) and state != VAR_LIB:
        return f"StateDirectory={_word(state.relative_to(VAR_LIB))}\nStateDirectoryMode=0700"
    return f"ReadWritePaths={_word(state)}"


def _word(path: Path) -> str:
    """A path as one word of a unit: systemd expands % and, in a command, $."""
    text = str(path).replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if " " in text else text
