"""A board's agent is replaced over a real broker, in real virtual environments, by wheels that pip installs.

The board is this machine, below a folder: what systemd does there, a thread of the test does. The wheels are made of
this tree under other version numbers; one of them ends at once, and one cannot be imported.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.downlink.upgrades import device_software
from firmware_configs.kits.own_wheel import Wheel, make_wheel, own_wheel
from firmware_configs.kits.upgrades.installer import board_json, program
from firmware_configs.manifest import load_manifest
from firmware_configs.use_cases.update_boards import Asked, choose, offer_update, update_status
from tests.e2e.provisioned import Fleet, provisioned
from tests.firmware_configs.own_board import ARCH, PYTHON
from tests.transport.events import eventually

pytestmark = [pytest.mark.slow, pytest.mark.broker]
GROUP = f"""
[[group]]
name = "pc"
board = "generic-{ARCH}"
devices = ["pc"]
os = ["generic"]
python = "{PYTHON}"
prototype = "mlp:fp32"
graph = "mlp.onnx"
[group.settings.train]
mode = "light"
"""
SITE = f"lib/python{PYTHON}/site-packages"
_SYSTEMCTL = """\
#!/bin/sh
root=$(dirname "$(dirname "$0")")
case "$*" in
    restart*) touch "$root/restart" ;;
    *NRestarts*) cat "$root/ends" ;;
    *) echo "looking for the broker" ;;
esac
"""


def another(version: str, added: Mapping[str, str]) -> Wheel:
    """edgestill's wheel under another version; texts are added to the ends of its modules."""
    own = own_wheel()
    with zipfile.ZipFile(io.BytesIO(own.data)) as archive:
        info = f"edgestill-{own.version}.dist-info/"
        files = {name.replace(info, "INFO/"): archive.read(name) for name in archive.namelist()}
    del files["INFO/RECORD"]
    files["INFO/METADATA"] = files["INFO/METADATA"].replace(
        f"Version: {own.version}".encode(), f"Version: {version}".encode()
    )
    for name, text in added.items():
        files[name] += text.encode()
    return make_wheel("edgestill", files)


class Board:
    """The folder; `watch` does what systemd would: starts the agent, again when it ends, and the installer."""

    def __init__(self, root: Path, fleet: Fleet) -> None:
        self.root, self.fleet = root, fleet
        first = root / "opt/edgestill"
        for folder in (root / "bin", root / "status", root / "state/upgrade"):
            folder.mkdir(parents=True)
        for name, text in {"systemctl": _SYSTEMCTL, "sync": "#!/bin/sh\n"}.items():
            (root / "bin" / name).write_text(text)
            (root / "bin" / name).chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", first], check=True)
        others = [place for place in sys.path if place.endswith("site-packages")]  # what edgestill needs, and pip
        (first / SITE / "others.pth").write_text("\n".join(others))
        wheel = root / own_wheel().file
        wheel.write_bytes(own_wheel().data)
        pip = [first / "bin/python", "-m", "pip", "-q", "install", "--no-deps", "--no-index", str(wheel)]
        subprocess.run(pip, check=True, capture_output=True)
        places = {"first": "opt/edgestill", "current": "opt/current", "environments": "opt/environments"}
        places |= {"exchange": "state/upgrade", "status": "status/status.json", "key": "fleet-kit.pub"}
        config = load_fleet_config(fleet.folder / "fleet.toml", environ={})
        facts = board_json(config.fleet, "pc", state_dir=str(root / "state"))
        facts |= {name: str(root / place) for name, place in places.items()}
        facts |= {"config": str(fleet.kits / "pc/agent.toml"), "look_s": 0.2, "ca": "none"}
        (root / "board.json").write_text(json.dumps(facts))
        (root / "fleet-kit.pub").write_bytes((fleet.kits / "fleet-kit.pub").read_bytes())
        (root / "upgrade.pyz").write_bytes(program())
        self.installer("--reset").wait()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def installer(self, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-I", self.root / "upgrade.pyz", self.root / "board.json", *arguments]
        environ = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
        with (self.root / "installer.log").open("a") as log:
            return subprocess.Popen(command, env=environ, stdout=log, stderr=log)

    def agent(self) -> subprocess.Popen:
        settings = [f"agent.state_dir={self.root / 'state'}", f"agent.upgrades={self.root / 'status'}"]
        flags = [word for text in settings for word in ("--set", text)]
        command = [self.root / "opt/current/bin/edgestill", "agent", "run", "--config"]
        with (self.root / "agent.log").open("a") as log:
            return subprocess.Popen(
                [*command, self.fleet.kits / "pc/agent.toml", *flags], stdout=log, stderr=log, cwd=self.root
            )

    def watch(self) -> None:
        ends, agent, installer = 0, self.agent(), None
        (self.root / "ends").write_text("0")
        while not self.over.wait(0.1):
            if (self.root / "restart").exists():
                (self.root / "restart").unlink()
                agent.terminate()
                agent.wait()
                ends, agent = 0, self.agent()
            elif agent.poll() is not None:
                ends, agent = ends + 1, self.agent()
            (self.root / "ends").write_text(str(ends))
            if (installer is None or installer.poll() is not None) and (self.root / "state/upgrade/request").exists():
                installer = self.installer()
        for process in filter(None, (agent, installer)):
            process.kill()
            process.wait()

    def said(self) -> str:
        return "\n".join((self.root / name).read_text() for name in ("installer.log", "agent.log"))

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "mlp.onnx").write_bytes(b"graph")  # nothing is trained here
    with provisioned(tmp_path, count=1, devices=5, groups=GROUP) as made:  # too few for a round
        made.broker.start()
        made.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml"])
        yield made


@pytest.fixture
def board(fleet: Fleet, tmp_path: Path) -> Iterator[Board]:
    made = Board(tmp_path / "board", fleet)
    yield made
    made.stop()


def stage(fleet: Fleet) -> tuple[str, str]:
    (row,) = update_status(load_fleet_config(fleet.folder / "fleet.toml", environ={}))["devices"]
    return row["stage"], row["reason"]


def version(fleet: Fleet) -> str:
    journal = fleet.journal()
    try:
        return device_software(journal, 0.0).get("pc", {"version": ""})["version"].partition("+")[0]
    finally:
        journal.close()


def update(fleet: Fleet, to: str, **added: str) -> None:
    """Offer a version to the board; its lock has edgestill alone, as all else is there."""
    wheel = another(to, {name.replace("__", "/") + ".py": text for name, text in added.items()})
    path = fleet.folder / wheel.file
    path.write_bytes(wheel.data)
    manifest = load_manifest(fleet.folder / "fleet.toml", environ={})
    devices = choose(manifest, ("pc",), (), everything=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firmware_configs.kits.wheel_set.shipped_lock", lambda *_: {})
        config = load_fleet_config(fleet.folder / "fleet.toml", environ={})
        offer_update(manifest, config, Asked(to=wheel.version, devices=devices, wheel=path))


def test_a_new_version_is_taken_and_those_that_do_not_work_go_back(fleet: Fleet, board: Board) -> None:
    own = own_wheel().version.partition("+")[0]
    assert eventually(lambda: version(fleet) == own, 600), fleet.said("aggregator")
    update(fleet, "90.0")
    assert eventually(lambda: stage(fleet) == ("committed", ""), 600), (
        stage(fleet),
        (board.root / "installer.log").read_text(),
    )
    assert eventually(lambda: version(fleet) == "90.0", 600)
    first = (board.root / "opt/current").resolve()
    update(fleet, "91.0", edge_agent__service="\nService.run = lambda self: 1\n")
    ended = ("back", "the new agent has ended 3 times")
    assert eventually(lambda: stage(fleet) == ended, 600), stage(fleet)
    update(fleet, "92.0", edge_agent__service="\nimport gone\n")
    reason = "it cannot be installed: ModuleNotFoundError: No module named 'gone'"
    assert eventually(lambda: stage(fleet) == ("refused", reason), 600), stage(fleet)
    assert (board.root / "opt/current").resolve() == first
    update(fleet, "93.0")
    assert eventually(lambda: stage(fleet) == ("committed", ""), 600), stage(fleet)
    assert eventually(lambda: version(fleet) == "93.0", 600)
    said = fleet.edgestill("device", "list")
    assert "93.0" in said.stdout, said.stderr
