"""A kit for this machine is installed below another root, from its wheels alone; and what is in a kit for ARM."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.kits.lock import parse_lock
from firmware_configs.provision import provision
from firmware_configs.use_cases.export_kit import export_kit
from tests.firmware_configs.fleets import PI, manifest
from tests.firmware_configs.own_board import own_board


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
    outside = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": "", "PIP_NO_COMPILE": "1"}
    done = install(card, root, **outside)
    assert done.returncode == 0, done.stderr
    assert not (root / "opt/edgestill.installing").exists()
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
