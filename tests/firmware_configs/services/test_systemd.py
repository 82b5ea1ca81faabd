"""Units on this machine and below other roots."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.services import systemd as module
from firmware_configs.services.systemd import Systemd

pytestmark = pytest.mark.light


def test_units_of_another_root_are_below_it_and_nobody_is_told(tmp_path: Path) -> None:
    other = Systemd.below(tmp_path)
    assert other == Systemd(tmp_path / "etc/systemd/system", control=False)
    other.write("a.service", "[Unit]\n")
    assert other.path("a.service").read_text() == "[Unit]\n"
    other.remove("a.service")
    assert list(other.units.iterdir()) == []
    with pytest.raises(ConfigError, match=r"a\.service: No such file or directory$"):
        other.remove("a.service")


@pytest.mark.parametrize("running", [True, False])
def test_this_machines_systemd_is_told_if_it_runs(
    running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RUNNING", tmp_path if running else tmp_path / "missing")
    assert Systemd.below(Path("/")) == Systemd(Path("/etc/systemd/system"), control=running)


def test_the_order_is_stop_remove_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" "$(ls {tmp_path / "units"})" >> {calls}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    systemd = Systemd(tmp_path / "units", control=True)
    systemd.write("a.service", "x")
    systemd.remove("a.service")
    assert calls.read_text().splitlines() == [
        "daemon-reload a.service",
        "disable --now a.service a.service",
        "daemon-reload ",
    ]
    program.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    with pytest.raises(ConfigError, match=r"^systemctl daemon-reload failed: Failed to connect to bus$"):
        systemd.write("a.service", "x")


def test_who_may_not_write_units_is_told_to_be_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, text: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(module, "write_atomic", denied)  # the tests may run as root, who is denied nothing
    with pytest.raises(ConfigError, match=r"/a\.service: Permission denied; run this as root: sudo$"):
        Systemd(tmp_path, control=False).write("a.service", "x")
