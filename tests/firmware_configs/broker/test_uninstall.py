"""Files of an earlier, hand-made installation are removed too (the others: test_several_fleets.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.broker.mosquitto import acl
from firmware_configs.broker.uninstall import uninstall_broker
from firmware_configs.services.systemd import Systemd

pytestmark = pytest.mark.light


def test_a_folder_that_was_copied_by_hand_goes_with_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "edgestill").mkdir()
    (tmp_path / "edgestill" / "acl").write_text(acl("garden"))
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "edgestill.conf").write_text("listener 8883\n")
    (tmp_path / "conf.d" / "mine.conf").write_text("listener 1883\n")
    systemd = Systemd(tmp_path / "units", control=False)
    with pytest.raises(ConfigError, match="has no broker of fleet roof"):
        uninstall_broker("roof", to=tmp_path, systemd=systemd)
    said = uninstall_broker("garden", to=tmp_path, systemd=systemd)
    assert said == [
        f"removed {tmp_path}/conf.d/edgestill.conf",
        f"removed {tmp_path}/edgestill",
        "restart Mosquitto: sudo systemctl restart mosquitto",
    ]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["conf.d", "mine.conf"]
