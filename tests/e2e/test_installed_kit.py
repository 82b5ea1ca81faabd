"""A kit for this machine is installed below another root, from its wheels alone; and what is in a kit for ARM."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.kits.install import Install, install_script
from firmware_configs.kits.lock import Locked, lock_text, parse_lock
from firmware_configs.on_board import fetch_wheels
from firmware_configs.provision import provision
from firmware_configs.use_cases.export_kit import export_kit
from firmware_configs.use_cases.serve_wheels import open_server
from firmware_configs.wheel_server import WheelServer
from tests.brokers import free_port
from tests.firmware_configs.fleets import PI, manifest
from tests.firmware_configs.own_board import ARCH, PYTHON, own_board
from tests.firmware_configs.wheels import add_wheel
from tests.transport.events import eventually


def install(kit: Path, root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "EDGESTILL_ROOT": str(root), "EDGESTILL_PYTHON": sys.executable, **environment}
    return subprocess.run(
        ["sh", str(kit / "install.sh")], env=env, capture_output=True, text=True, check=False, timeout=600
    )


def test_a_kit_is_installed_from_its_wheels_alone(tmp_path: Path) -> None:
    """The whole way, with pip and everything that a light agent needs, without an index."""
    try:
        provision(manifest(tmp_path, own_board(tmp_path), provision='wheels = "card"'))
    except ConfigError as error:
        if "pip download failed" not in str(error):
            raise
        pytest.skip(f"*** NO WHEELS TO BE HAD ({error}): THAT A KIT INSTALLS IS NOT TESTED ***")
    card, root = tmp_path / "card", tmp_path / "root"
    export_kit(tmp_path / "kits/pc", card)
    outside = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": ""}
    done = install(card, root, **outside)
    assert done.returncode == 0, done.stderr
    assert not (root / "opt/edgestill.installing").exists()
    packages = next((root / "opt/edgestill/lib").glob("python3*/site-packages"))
    assert list(packages.glob("edge_agent/__pycache__/service.*.pyc"))
    assert not list(packages.glob("onnx/backend/test/**/*.pyc"))  # only what an agent imports is compiled
    command = root / "opt/edgestill/bin/edgestill"
    asked = subprocess.run([command, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert asked.stdout.startswith("edgestill ")
    imports = "import core, onnxruntime; print(core.__file__)"
    python = [root / "opt/edgestill/bin/python", "-c", imports]
    found = subprocess.run(python, capture_output=True, text=True, check=True, cwd=tmp_path, env={"PATH": ""})
    assert Path(found.stdout.strip()).is_relative_to(root)
    for wheel in (card / "wheels").iterdir():
        wheel.unlink()  # what is installed is not looked for again
    assert install(card, root, **outside).returncode == 0


def test_wheels_are_fetched_from_the_fleets_machine_and_installed(tmp_path: Path) -> None:
    """The small one: a real venv, pip and server, a lock of one tiny wheel, and a transfer that was cut."""
    provision(manifest(tmp_path, own_board(tmp_path), provision='wheels = "none"'))
    card, root, made = tmp_path / "card", tmp_path / "root", tmp_path / "made"
    export_kit(tmp_path / "kits/pc", card)
    made.mkdir()
    add_wheel(made, "edgestill", "1.0", files={"core/__init__.py": "x = 1\n" * 1000})
    (path,) = made.iterdir()
    data = path.read_bytes()
    wheel = Locked(name="edgestill", version="1.0", file=path.name, sha256=hashlib.sha256(data).hexdigest())
    place = tmp_path / "kits/_wheels" / wheel.sha256 / wheel.file
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    (card / "locks").mkdir()
    (card / f"locks/py{PYTHON}.txt").write_text(lock_text({"edgestill": wheel}))
    (card / "fetch_wheels.py").write_bytes(Path(fetch_wheels.__file__).read_bytes())
    (card / "install.sh").write_text(install_script(Install(arch=ARCH, wheels="fleet", fetch=True, need_mb=1)))
    part = root / f"var/lib/edgestill-wheels/.{wheel.sha256}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(data[:100])
    with serving(tmp_path / "kits") as (server, told):
        facts = {"wheels": {wheel.file: {"sha256": wheel.sha256, "bytes": len(data), "os": ["generic"]}}}
        url = f"http://127.0.0.1:{server.port}"
        (card / "kit.json").write_text(json.dumps({**facts, "fetch": {"url": url, "always": True}}))
        done = install(card, root)
        assert done.returncode == 0, done.stderr
        assert eventually(lambda: told == [f"127.0.0.1: {wheel.file}, {(len(data) - 100) / 1e6:.1f} MB"]), told
    python = [root / "opt/edgestill/bin/python", "-I", "-c", "import core; print(core.x)"]
    assert subprocess.run(python, capture_output=True, text=True, check=True).stdout == "1\n"
    assert "all wheels are here" in install(card, root).stdout  # without a server


@contextmanager
def serving(kits: Path) -> Iterator[tuple[WheelServer, list[str]]]:
    told: list[str] = []
    with open_server(kits, "127.0.0.1:0", told.append) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server, told
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow  # pip fetches, and installs, everything that a light agent needs
def test_a_kit_without_wheels_is_installed_from_the_fleets_machine(tmp_path: Path) -> None:
    """As a whole, with wheels that the board fetches when it is installed; the server is gone at first."""
    port = free_port()
    fleet = f'wheels = "fleet"\nwheels_url = "http://127.0.0.1:{port}"'
    try:
        provision(manifest(tmp_path, own_board(tmp_path), provision=fleet))
    except ConfigError as error:
        if "pip download failed" not in str(error):
            raise
        pytest.skip(f"*** NO WHEELS TO BE HAD ({error}): THAT A BOARD FETCHES THEM IS NOT TESTED ***")
    card, root = tmp_path / "card", tmp_path / "root"
    export_kit(tmp_path / "kits/pc", card)
    shutil.rmtree(card / "wheels")  # as `flash` leaves them out
    outside = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": "", "PIP_NO_COMPILE": "1"}
    done = install(card, root, **outside)
    assert (done.returncode, "refused" in done.stderr.splitlines()[-1]) == (1, True), done.stderr
    with edgestill_serves(tmp_path, port) as told:
        done = install(card, root, **outside)
        assert done.returncode == 0, done.stderr
        again = install(card, root, **outside)
        assert (again.returncode, "all wheels are here" in again.stdout) == (0, True), again.stderr
    command = root / "opt/edgestill/bin/edgestill"
    asked = subprocess.run([command, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert asked.stdout.startswith("edgestill ")
    assert not (root / "var/lib/edgestill-wheels").exists()
    wheels = len(list((tmp_path / "kits/_wheels").glob("*/*.whl")))
    assert len([line for line in told.read_text().splitlines() if line.startswith("127.0.0.1: ")]) == wheels


@contextmanager
def edgestill_serves(folder: Path, port: int) -> Iterator[Path]:
    """`edgestill kit serve`, as a person starts it; what it tells."""
    told = folder / "served.txt"
    command = [sys.executable, "-m", "edgestill", "kit", "serve", "kits", "--listen", f"127.0.0.1:{port}"]
    with told.open("w") as file:
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder)
        try:
            assert eventually(lambda: "are served on" in told.read_text()), told.read_text()
            yield told
        finally:
            server.terminate()
            assert server.wait(120) == 0, told.read_text()


def test_a_kit_for_arm_has_the_locks_of_its_systems(tmp_path: Path) -> None:
    provision(manifest(tmp_path, PI))
    export_kit(tmp_path / "kits/pi-01", tmp_path / "card")
    for python, tag in {"3.11": "cp311", "3.13": "cp313"}.items():
        lock = parse_lock((tmp_path / f"card/locks/py{python}.txt").read_text(), python)
        assert lock["torch"].file == f"torch-2.7.1-{tag}-{tag}-manylinux_2_28_aarch64.whl"
        assert (tmp_path / "card/wheels" / lock["edgestill"].file).is_file()
    assert "machine=aarch64\n" in (tmp_path / "card/install.sh").read_text()
    done = install(tmp_path / "card", tmp_path / "root")
    if os.uname().machine != "aarch64":
        assert (done.returncode, "this kit is for aarch64" in done.stderr) == (1, True)
