"""The installer of upgrades in a kit: a program, what it must know of the board, and its units.

    upgrade.pyz                on_board/upgrade.py and what it imports, run by the Python of /opt/edgestill
    upgrade.json               paths, fleet and device; /opt/edgestill-upgrade/board.json on the board
    fleet-kit.pub              the key that bundles are signed with
    edgestill-upgrade.path     starts the service when the agent has left a bundle
    edgestill-upgrade.service  also at every boot: what a power cut has interrupted goes on

install.sh puts them where the agent, which is not root, cannot write; so a bundle that the agent hands over is checked
with a key that is not the agent's.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from core.files import read_regular
from firmware_configs import on_board
from firmware_configs.kits.kit import KitFile
from firmware_configs.kits.own_wheel import zipped
from firmware_configs.kits.unit import CURRENT
from firmware_configs.kits.unit import NAME as AGENT
from wire.keys import Ed25519PublicKey

__all__ = ["FOLDER", "PATH_UNIT", "SERVICE", "STATUS_DIR", "board_json", "program", "upgrader_files"]

FOLDER = "/opt/edgestill-upgrade"
#: [agent] upgrades: where the agent reads how far an upgrade is.
STATUS_DIR = "/var/lib/edgestill-upgrade"
SERVICE, PATH_UNIT = "edgestill-upgrade.service", "edgestill-upgrade.path"
MODULES = ("bundles", "environments", "fetch_wheels", "upgrade")
TRIAL_S = 300.0  # to reach the broker, for a new agent
MAX_FILE = 2**20
MAIN = b"""\
import os
import sys

from firmware_configs.on_board.upgrade import main

os.umask(0o022)
sys.exit(main(sys.argv[1:]))
"""

_SERVICE = f"""\
[Unit]
Description=edgestill: another version of the agent
After=local-fs.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/opt/edgestill/bin/python -I {FOLDER}/upgrade.pyz {FOLDER}/board.json
TimeoutStartSec=infinity
PrivateTmp=yes
NoNewPrivileges=yes

[Install]
WantedBy=multi-user.target
"""
_PATH = f"""\
[Unit]
Description=edgestill: a bundle of another version

[Path]
PathExists={{exchange}}/request
Unit={SERVICE}

[Install]
WantedBy=multi-user.target
"""


def program() -> bytes:
    """The installer as one file that Python runs; its bytes depend on the modules alone."""
    folder = Path(on_board.__file__).parent
    files = {f"firmware_configs/on_board/{name}.py": read_regular(folder / f"{name}.py", MAX_FILE) for name in MODULES}
    files |= {"__main__.py": MAIN}
    files |= {f"{package}/__init__.py": b"" for package in ("firmware_configs", "firmware_configs/on_board")}
    return zipped(files)


def board_json(fleet: str, device: str, *, state_dir: str) -> dict[str, object]:
    """What the installer knows of its board."""
    return {
        "fleet": fleet,
        "device": device,
        "first": "/opt/edgestill",
        "current": CURRENT,
        "environments": "/opt/edgestill-environments",
        "exchange": f"{state_dir}/upgrade",
        "status": f"{STATUS_DIR}/status.json",
        "key": f"{FOLDER}/fleet-kit.pub",
        "ca": "/etc/edgestill/tls/ca.pem",
        "config": "/etc/edgestill/agent.toml",
        "unit": AGENT,
        "trial_s": TRIAL_S,
        "look_s": 1.0,
    }


def upgrader_files(fleet: str, device: str, *, state_dir: str, key: Ed25519PublicKey) -> dict[str, KitFile]:
    """The files of a kit, by name."""
    facts = board_json(fleet, device, state_dir=state_dir)
    return {
        "upgrade.pyz": KitFile(program()),
        "upgrade.json": KitFile(msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"),
        "fleet-kit.pub": KitFile(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)),
        SERVICE: KitFile(_SERVICE.encode()),
        PATH_UNIT: KitFile(_PATH.format(exchange=facts["exchange"]).encode()),
    }
