"""The agent's systemd unit: restarted indefinitely, with a watchdog and minimal privileges."""

from __future__ import annotations

from pathlib import PurePosixPath

from firmware_configs.boards import Board
from firmware_configs.services.hardening import HARDENING

__all__ = ["CURRENT", "MODEL_DIR", "MODEL_GROUP", "NAME", "unit"]

NAME = "edgestill-agent.service"
#: A link to the virtual environment of the agent: that of the kit, /opt/edgestill, or one that an upgrade has made.
CURRENT = "/opt/edgestill-current"
#: Where the agent publishes its model, and the group of the applications that may read it: install.sh makes both. Its
#: mode is 0750, unlike that of the state folder, which is the agent's alone.
MODEL_DIR, MODEL_GROUP = "/var/lib/edgestill-model", "edgestill-model"


TEMPLATE = """\
[Unit]
Description=edgestill agent
Wants=network-online.target
After=network-online.target time-sync.target
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={current}/bin/edgestill agent run --config /etc/edgestill/agent.toml
Restart=always
RestartSec=5
WatchdogSec=60
TimeoutStopSec=15
User=edgestill
Group=edgestill
StateDirectory=edgestill
StateDirectoryMode=0700
UMask=0077

MemoryMax={memory_mb}M
MemorySwapMax=0
OOMPolicy=continue
TasksMax=64

ReadWritePaths=-{model_dir}
ProtectHome={home}
{devices}
{hardening}
[Install]
WantedBy=multi-user.target
"""


def unit(board: Board, *, data: str, train_mb: int | None = None) -> str:
    """The unit of an agent on this board, with its samples at `data`.

    `train_mb` is the limit of its training, if it is not that of the profile: less on a variant with less memory.
    """
    memory_mb = board.service_mb
    if train_mb is not None:
        memory_mb = min(memory_mb, train_mb + board.service_mb - board.train_mb)
    home = "read-only" if PurePosixPath(data).parts[1:2] in (("home",), ("root",)) else "yes"
    plain = board.accelerator == "none"
    devices = "PrivateDevices=yes\nPrivateUsers=yes" if plain else "SupplementaryGroups=video render"
    return TEMPLATE.format(
        memory_mb=memory_mb,
        home=home,
        devices=devices,
        model_dir=MODEL_DIR,
        current=CURRENT,
        hardening=HARDENING,
    )
