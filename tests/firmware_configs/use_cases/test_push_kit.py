"""A kit is checked before a connection is made; the board's words come back."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from core.errors import ConfigError, DeviceError
from firmware_configs.use_cases.provision_fleet import provision_fleet
from firmware_configs.use_cases.push_kit import push_folder
from firmware_configs.use_cases.revoke_device import revoke_certificates
from tests.firmware_configs.fleets import write_manifest

pytestmark = pytest.mark.light


def fake_ssh(folder: Path, then: str) -> str:
    script = folder / "an ssh.sh"
    script.write_text(f'cat > "{folder}/stdin"; echo "$@" > "{folder}/arguments"; {then}\n')
    return f"sh {shlex.quote(str(script))} -p 2222"


def test_what_the_board_says_comes_back(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    pushed = push_folder(kits / "pi-01", "root@pi", seconds=7, ssh=fake_ssh(tmp_path, "echo installed; echo reports"))
    assert (pushed.device, pushed.lines) == ("pi-01", ("installed", "reports"))
    assert (tmp_path / "arguments").read_text().startswith("-p 2222 -o BatchMode=yes -T -- root@pi ")
    assert (tmp_path / "stdin").stat().st_size > 0
    with pytest.raises(DeviceError, match="did not report within 7 s"):
        push_folder(kits / "pi-01", "root@pi", seconds=7, ssh=fake_ssh(tmp_path, "exit 72"))


def test_a_revoked_kit_never_leaves(tmp_path: Path) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    revoke_certificates(kits, "garden", "pi-01")
    with pytest.raises(ConfigError, match="kit pi-01: its certificate was revoked"):
        push_folder(kits / "pi-01", "root@pi", ssh=fake_ssh(tmp_path, "exit 0"))
    assert not (tmp_path / "arguments").exists()
