"""A group's settings come before its board's."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from tests.firmware_configs.fleets import PI, manifest

pytestmark = pytest.mark.light


def test_a_group_comes_before_its_board(tmp_path: Path) -> None:
    group = PI.replace("count = 2", 'devices = ["attic"]\nos = ["cloud-init"]\nupdate = "delta"\ndelta_bits = 4')
    settings = "[group.settings.train]\nthreads = 1\n[group.settings.data]\nvalidation = 0.1\n"
    settings += '[group.settings.model]\nrefresh = "offers"\n'
    (device,) = manifest(tmp_path, group + settings).devices
    assert device.id == "attic"
    assert device.os == ("cloud-init",)
    assert device.tables["train"]["threads"] == 1
    published = {"publish": "/var/lib/edgestill-model"}
    assert device.tables["model"] == {"prototype": "cnn:w1", "refresh": "offers", **published}
    assert device.tables["data"] == {"path": "/var/lib/edgestill/samples.npz", "validation": 0.1}
    assert device.tables["update"] == {"kind": "delta", "delta_bits": 4}


def test_precision_may_be_a_key_of_its_own(tmp_path: Path) -> None:
    group = PI.replace('"cnn:w1"', '"cnn"\nprecision = "w1"')
    assert manifest(tmp_path, group).devices[0].tables["model"]["prototype"] == "cnn:w1"


def test_more_memory_than_the_board_has_for_it_is_refused_with_the_numbers(tmp_path: Path) -> None:
    said = r"'memory_mb' is 1800, but .* may use 1800 MB of the 4096 MB of a rpi-4"
    with pytest.raises(ConfigError, match=said):
        manifest(tmp_path, PI + "[group.settings.train]\nmemory_mb = 1800\n")
    (first, *_) = manifest(tmp_path, PI + "[group.settings.train]\nmemory_mb = 1799\n").devices
    assert first.tables["train"]["memory_mb"] == 1799
