"""A manifest file to a provisioned fleet, in one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.use_cases.provision_fleet import provision_fleet
from tests.firmware_configs.fleets import write_manifest
from wire.keys import load_public_key, public_key_hex

pytestmark = pytest.mark.light


def test_a_fleet_is_made_and_then_kept(tmp_path: Path) -> None:
    path = write_manifest(tmp_path)
    made = provision_fleet(path)
    assert made.out == tmp_path / "kits"
    assert (made.done.made, made.done.kept) == (["pi-01", "pi-02"], [])
    assert made.kit_key == public_key_hex(load_public_key(made.out / "fleet-kit.pub"))
    for folder, file in (
        (made.broker, "acl"),
        (made.aggregator, "aggregator.pem"),
        (made.device_keys, "pi-01.pub"),
        (made.authority, "kit.key"),
    ):
        assert (folder / file).is_file()
    again = provision_fleet(path, renew=["pi-02"])
    assert (again.done.kept, again.done.renewed) == (["pi-01"], ["pi-02"])
    assert again.facts()["renewed"] == ["pi-02"]
    assert again.facts()["out"] == str(tmp_path / "kits")


def test_kits_go_where_the_caller_says(tmp_path: Path) -> None:
    made = provision_fleet(write_manifest(tmp_path), out=tmp_path / "elsewhere")
    assert made.out == tmp_path / "elsewhere"
    assert (made.out / "pi-01" / "kit.json").is_file()
    with pytest.raises(ConfigError, match="pi-09"):
        provision_fleet(tmp_path / "fleet.toml", renew=["pi-09"])
