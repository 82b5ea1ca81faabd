"""A board whose installer fails is listed with the reason, over a real broker with TLS, until its agent is online.

What systemd does is done by hand: install.sh is run, and after a failure the script that the unit names gets the log.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firmware_configs.use_cases.export_kit import export_kit
from tests.e2e.provisioned import Fleet, provisioned
from tests.e2e.test_installed_kit import install
from tests.transport.events import eventually


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A served fleet, and the kit of a board as its card has it."""
    with provisioned(tmp_path, count=1, rounds=99) as made:
        made.broker.start()
        made.children.start("aggregator", ["aggregator", "serve", "--config", "fleet.toml"])
        made.until(lambda journal: journal.current() != {})
        export_kit(made.kits / "pi-01", tmp_path / "card")
        yield made


def listed(fleet: Fleet) -> dict[str, str]:
    """The device, as `device list` has it."""
    done = fleet.edgestill("device", "list", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    return found


def fail(fleet: Fleet, machine: str, need_mb: int = 0) -> str:
    """One attempt of the unit edgestill-firstboot on such a board; returns what the script of the kit says."""
    card = fleet.folder / "card"
    python, script = fleet.folder / "python", card / "install.sh"
    python.write_text(f"#!/bin/sh\necho '{machine}'\n")
    python.chmod(0o755)
    script.write_text(re.sub(r"^need_mb=.*$", f"need_mb={need_mb}", script.read_text(), flags=re.MULTILINE))
    done = install(card, fleet.folder / "root", EDGESTILL_PYTHON=str(python))
    assert done.returncode == 1
    log = f"{done.stdout}{done.stderr}edgestill-firstboot.service: Main process exited, code=exited, status=1/FAILURE\n"
    command = [sys.executable, "-I", "-S", str(card / "report_failure.py")]
    told = subprocess.run(command, input=log, capture_output=True, text=True, check=False, timeout=120)
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_a_board_that_cannot_install_is_listed_with_the_reason_until_it_has(fleet: Fleet) -> None:
    assert "told 127.0.0.1: this kit is for aarch64, and this machine is riscv64" in fail(fleet, "3.11 riscv64")
    assert eventually(lambda: "this machine is riscv64" in listed(fleet)["installing"])
    fail(fleet, "3.11 aarch64", need_mb=999_999_999)
    assert eventually(lambda: "the packages take 999999999 MB" in listed(fleet)["installing"])
    shown = fleet.edgestill("device", "list").stdout
    assert re.search(r"^pi-01: installing: \d+ MB are free in .*/opt, and the packages take 999999999 MB$", shown, re.M)
    assert re.search(r"^pi-01 +installing ", shown, re.M)
    assert "pi-01: installing: " in fleet.edgestill("status").stdout
    assert "device 'pi-01': installing: this kit is for aarch64" in fleet.said("aggregator")
    fleet.start("pi-01")  # it was installed after all
    assert eventually(lambda: listed(fleet)["status"] == "online"), fleet.said("pi-01")
    assert eventually(lambda: listed(fleet)["installing"] == "")
    assert "installing" not in fleet.edgestill("device", "list").stdout
