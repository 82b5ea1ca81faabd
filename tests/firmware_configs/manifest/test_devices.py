"""A group becomes devices."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from tests.firmware_configs.fleets import PI, manifest, write_secrets

pytestmark = pytest.mark.light


def test_a_group_becomes_devices_with_the_settings_of_their_board(tmp_path: Path) -> None:
    found = manifest(tmp_path)
    assert [device.id for device in found.devices] == ["pi-01", "pi-02"]
    assert found.devices[0].tables["train"] == {"mode": "full", "threads": 3, "memory_mb": 1500, "device": "cpu"}
    assert found.devices[0].os == ("bookworm", "cloud-init")
    assert (found.host, found.port, found.out) == ("127.0.0.1", 8883, tmp_path / "kits")


def test_a_larger_count_renames_nobody(tmp_path: Path) -> None:
    small = [d.id for d in manifest(tmp_path, PI.replace("2", "99", 1)).devices]
    large = [d.id for d in manifest(tmp_path, PI.replace("2", "101", 1)).devices]
    assert large[:99] == small
    assert large[99:] == ["pi-100", "pi-101"]


def test_a_light_board_has_the_first_graph_or_the_one_it_is_given(tmp_path: Path) -> None:
    group = PI.replace("rpi-4", "rpi-zero-2w")
    (device, _) = manifest(tmp_path, group).devices
    assert (device.mode, device.first_graph, device.tables["model"]["graph"]) == ("light", True, "model.onnx")
    assert not manifest(tmp_path).devices[0].first_graph
    with pytest.raises(ConfigError, match=r"there is no file .*cnn\.onnx"):
        manifest(tmp_path, group + 'graph = "cnn.onnx"\n')
    (tmp_path / "cnn.onnx").write_bytes(b"graph")
    (device, _) = manifest(tmp_path, group + 'graph = "cnn.onnx"\n').devices
    assert device.graph == tmp_path / "cnn.onnx"
    assert device.tables["model"]["graph"] == "model.onnx"


def test_wifi_where_nothing_sets_it_up_is_refused(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    group = PI.replace("rpi-4", "jetson-orin-nano") + 'wifi = "home"\n'
    with pytest.raises(ConfigError, match="bookworm and cloud-init only, not on jetson"):
        manifest(tmp_path, group, provision='secrets = "secrets.toml"')


def test_wheels_are_for_the_python_of_each_system(tmp_path: Path) -> None:
    device = manifest(tmp_path).devices[0]
    assert {family: (t.arch, t.python) for family, t in device.targets.items()} == {
        "bookworm": ("arm64", "3.11"),
        "cloud-init": ("arm64", "3.13"),
    }
    ubuntu = manifest(tmp_path, PI + 'os = ["cloud-init"]\npython = "3.12"\n').devices[0]
    assert [target.python for target in ubuntu.targets.values()] == ["3.12"]
    with pytest.raises(ConfigError, match="board rpi-4 is not known with generic: give 'python'"):
        manifest(tmp_path, PI + 'os = ["generic"]\n')
    with pytest.raises(ConfigError, match=r"'python' is '3\.9'"):
        manifest(tmp_path, PI + 'python = "3.9"\n')


def test_the_source_of_torch_is_the_groups_or_that_of_all(tmp_path: Path) -> None:
    jetson = PI.replace("rpi-4", "jetson-orin-nano")
    with pytest.raises(ConfigError, match=r"\[\[group\]\] 'pi': board jetson-orin-nano trains with NVIDIA's torch"):
        manifest(tmp_path, jetson)
    everywhere = 'torch = "https://wheels.example/jp6"'
    first = manifest(tmp_path, jetson, provision=everywhere).devices[0].torch
    assert first is not None
    assert first.index == "https://wheels.example/jp6"
    second = manifest(tmp_path, jetson + 'torch = "system"\n', provision=everywhere).devices[0].torch
    assert second is not None
    assert second.requirement is None
    assert manifest(tmp_path, jetson, provision='wheels = "none"').devices[0].torch is None
    with pytest.raises(ConfigError, match=r"board rpi-zero-2w has no torch \(512 MB of memory\)"):
        manifest(tmp_path, PI.replace("rpi-4", "rpi-zero-2w") + '[group.settings.train]\nmode = "full"\n')
