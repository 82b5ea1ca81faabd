"""The installer of upgrades as a kit has it: a program that runs anywhere, units that systemd takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firmware_configs.kits.unit import CURRENT
from firmware_configs.kits.upgrades.installer import FOLDER, PATH_UNIT, SERVICE, STATUS_DIR, program, upgrader_files
from tests.firmware_configs.kits.test_unit import analyze, needs_systemd, written
from wire.keys import generate_key, load_public_key

pytestmark = pytest.mark.light
KEY = generate_key()


def files() -> dict[str, bytes]:
    made = upgrader_files("garden", "pi-01", state_dir="/var/lib/edgestill", key=KEY.public_key())
    return {name: file.data for name, file in made.items()}


def test_the_program_runs_by_a_bare_python_and_its_bytes_are_always_the_same(tmp_path: Path) -> None:
    assert program() == program()
    (tmp_path / "upgrade.pyz").write_bytes(program())
    command = [sys.executable, "-I", "-S", str(tmp_path / "upgrade.pyz"), "--help"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (asked.returncode, "--reset" in asked.stdout) == (0, True), asked.stderr


def test_what_it_knows_of_the_board_is_where_the_kit_puts_it(tmp_path: Path) -> None:
    made = files()
    facts = json.loads(made["upgrade.json"])
    assert (facts["fleet"], facts["device"]) == ("garden", "pi-01")
    assert facts["current"] == CURRENT
    assert facts["status"].startswith(STATUS_DIR)
    assert facts["key"] == f"{FOLDER}/fleet-kit.pub"
    (tmp_path / "key.pub").write_bytes(made["fleet-kit.pub"])
    assert load_public_key(tmp_path / "key.pub") == KEY.public_key()
    assert f"PathExists={facts['exchange']}/request\n".encode() in made[PATH_UNIT]


@needs_systemd
def test_systemd_takes_its_units(tmp_path: Path) -> None:
    made = files()
    service = written(tmp_path, SERVICE, made[SERVICE].decode(), "/opt/edgestill/bin/python")
    path = written(tmp_path, PATH_UNIT, made[PATH_UNIT].decode())
    verified = analyze("verify", service, path)
    assert verified.returncode == 0, verified.stderr
