"""A folder that stands for a board whose agent can be replaced; its Python, pip and systemd are small scripts.

The scripts do what the installer relies on: `python -m venv` makes an environment, pip unpacks wheels by the lock, the
service manager starts the agent of the environment that `current` names. That agent is the file `agent` of a wheel:

    well      it says that it is well      ends    it ends at once, and is started again      silent    nothing
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firmware_configs.kits.lock import Locked, lock_text
from firmware_configs.kits.upgrades.bundle import Bundle, BundleTarget, write_bundle
from firmware_configs.kits.upgrades.installer import program
from firmware_configs.kits.wheels import WheelStore
from tests.firmware_configs.wheels import add_wheel
from wire.keys import Ed25519PrivateKey, generate_key, save_public_key

PYTHON = "{}.{}".format(*sys.version_info[:2])
SITE = f"lib/python{PYTHON}/site-packages"
_PYTHON = f"""\
#!{sys.executable} -IS
import pathlib, shutil, sys, zipfile
here, words = pathlib.Path(sys.argv[0]).parent.parent, sys.argv[1:]
site = here / "{SITE}"
if "venv" in words:
    new = pathlib.Path(words[-1])
    (new / "bin").mkdir(parents=True)
    (new / "{SITE}").mkdir(parents=True)
    shutil.copy(here / "bin/python", new / "bin/python")
    (new / "pyvenv.cfg").write_text((here / "pyvenv.cfg").read_text())
elif "pip" in words:
    (here / "pip-words").write_text(" ".join(words))
    lock = pathlib.Path(words[words.index("--requirement") + 1]).read_text().splitlines()
    folders = [pathlib.Path(word) for before, word in zip(words, words[1:]) if before == "--find-links"]
    for line in lock:
        name, _, version = line.removesuffix(" \\\\").partition("==")
        if version and not (site / f"{{name}}-{{version}}.dist-info").exists():
            found = [path for folder in folders for path in folder.glob(f"{{name}}-{{version}}-*.whl")]
            if not found:
                sys.exit(f"ERROR: No matching distribution found for {{name}}=={{version}}")
            for old in site.glob(f"{{name}}-*.dist-info"):
                shutil.rmtree(old)
            for entry in zipfile.ZipFile(found[0]).infolist():
                (site / entry.filename).unlink(missing_ok=True)
                zipfile.ZipFile(found[0]).extract(entry, site)
elif (site / "agent").read_text() == "broken":
    sys.exit("ModuleNotFoundError: No module named 'gone'")
"""
_SYSTEMCTL = f"""\
#!{sys.executable} -IS
import json, pathlib, sys
root = pathlib.Path(sys.argv[0]).parent.parent
agent = (root / "opt/current/{SITE}/agent").read_text()
ends = root / "ends"
if sys.argv[1] == "restart":
    with (root / "started").open("a") as file:
        file.write(agent + " ")
    ends.write_text("0")
    if agent == "well":
        number = json.loads((root / "status/status.json").read_text())["number"]
        (root / "state/upgrade/healthy").write_text(str(number))
elif "NRestarts" in sys.argv:
    count = int(ends.read_text()) + (agent == "ends")
    ends.write_text(str(count))
    print(count)
else:
    print("looking for the broker")
"""


@dataclass
class Board:
    """The folder, and the key that its bundles are signed with."""

    root: Path
    key: Ed25519PrivateKey = field(default_factory=generate_key)
    number: int = 1_800_000_000
    trial_s: float = 120.0

    def __post_init__(self) -> None:
        first = self.root / "opt/edgestill"
        for folder in (first / "bin", first / SITE, self.root / "bin", self.root / "state/upgrade", self.store):
            folder.mkdir(parents=True, exist_ok=True)
        _script(first / "bin/python", _PYTHON)
        _script(self.root / "bin/systemctl", _SYSTEMCTL)
        _script(self.root / "bin/sync", "#!/bin/sh\n")  # a busy machine takes long
        (first / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
        (first / SITE / "edgestill-0.2.0.dist-info").mkdir()
        (first / SITE / "numpy-2.0.dist-info").mkdir()
        (first / SITE / "numpy.py").write_text("large")
        (first / SITE / "agent").write_text("old")
        save_public_key(self.key.public_key(), self.root / "fleet-kit.pub")
        (self.root / "upgrade.pyz").write_bytes(program())
        (self.root / "board.json").write_text(json.dumps(self.facts))
        assert self.run("--reset").returncode == 0

    @property
    def facts(self) -> dict[str, Any]:
        places = {"first": "opt/edgestill", "current": "opt/current", "environments": "opt/environments"}
        places |= {"exchange": "state/upgrade", "status": "status/status.json", "key": "fleet-kit.pub"}
        own: dict[str, Any] = {"fleet": "garden", "device": "pi-01", "unit": "edgestill-agent.service", "look_s": 0.01}
        own |= {"trial_s": self.trial_s}
        return {**own, "config": "agent.toml", "ca": "none", **{n: str(self.root / p) for n, p in places.items()}}

    @property
    def store(self) -> Path:
        return self.root / "store"

    def wheel(self, version: str, agent: str = "well", name: str = "edgestill") -> Locked:
        """A wheel in the store."""
        made = self.root / "made"
        made.mkdir(exist_ok=True)
        add_wheel(made, name, version, files={"agent": agent} if name == "edgestill" else {f"{name}.py": version})
        (path,) = made.iterdir()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        (self.store / digest).mkdir(exist_ok=True)
        path.rename(self.store / digest / path.name)
        return Locked(name=name, version=version, file=path.name, sha256=digest)

    def bundle(
        self,
        version: str = "0.3.0",
        agent: str = "well",
        *,
        key: Ed25519PrivateKey | None = None,
        more: Sequence[Locked] = (),
        left_out: Sequence[str] = ("numpy",),
        fleet: str = "garden",
        force: bool = False,
        **target: Any,
    ) -> bytes:
        """A signed bundle with edgestill and the wheels of `more`; its lock has NumPy too, which the board has."""
        self.number += 1
        numpy = Locked(name="numpy", version="2.0", file="numpy-2.0-py3-none-any.whl", sha256="0" * 64)
        wheels = {wheel.name: wheel for wheel in (numpy, self.wheel(version, agent), *more)}
        known = {"devices": ("pi-01", "pi-02"), "machine": platform.machine(), "python": PYTHON, "unpacked": 1000}
        made = Bundle(
            fleet=fleet,
            version=version,
            number=self.number,
            force=force,
            targets=(BundleTarget(**{**known, "lock": lock_text(wheels), **target}),),
            carried=tuple(wheel for name, wheel in wheels.items() if name not in left_out),
        )
        digest, _ = write_bundle(made, WheelStore(self.store), key or self.key, self.root / "bundles")
        return (self.root / "bundles" / digest).read_bytes()

    def hand_over(self, bundle: bytes) -> None:
        """As the agent does."""
        (self.root / "state/upgrade/request").write_bytes(bundle)

    def run(self, *arguments: str, crash_at: str = "") -> subprocess.CompletedProcess[str]:
        """The installer, as its service runs it."""
        command = [sys.executable, "-I", str(self.root / "upgrade.pyz"), str(self.root / "board.json"), *arguments]
        environ = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "EDGESTILL_CRASH_AT": crash_at}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=120)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "status/status.json").read_text())
        return found

    @property
    def current(self) -> Path:
        return (self.root / "opt/current").resolve()

    @property
    def agent(self) -> str:
        """What runs with the next start."""
        return (self.current / SITE / "agent").read_text()

    @property
    def waiting(self) -> bool:
        """Whether systemd would start the installer: the request is there."""
        return (self.root / "state/upgrade/request").exists()


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
