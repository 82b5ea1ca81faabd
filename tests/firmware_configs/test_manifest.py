"""A manifest resolves to devices, or is refused with the place of the mistake."""

from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from core.errors import ConfigError
from firmware_configs.boards import FOLDER
from firmware_configs.kits.kit import KitFetch
from firmware_configs.manifest import load_manifest
from tests.firmware_configs.fleets import FLEET, PI, manifest, write_manifest, write_secrets

pytestmark = pytest.mark.light


def test_a_group_becomes_devices_with_the_settings_of_their_board(tmp_path: Path) -> None:
    found = manifest(tmp_path)
    assert [device.id for device in found.devices] == ["pi-01", "pi-02"]
    assert found.devices[0].tables["train"] == {"mode": "full", "threads": 3, "memory_mb": 1500, "device": "cpu"}
    assert found.devices[0].os == ("bookworm", "cloud-init")
    assert (found.host, found.port, found.out) == ("127.0.0.1", 8883, tmp_path / "kits")


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


def test_a_larger_count_renames_nobody(tmp_path: Path) -> None:
    small = [d.id for d in manifest(tmp_path, PI.replace("2", "99", 1)).devices]
    large = [d.id for d in manifest(tmp_path, PI.replace("2", "101", 1)).devices]
    assert large[:99] == small
    assert large[99:] == ["pi-100", "pi-101"]


def test_precision_may_be_a_key_of_its_own(tmp_path: Path) -> None:
    group = PI.replace('"cnn:w1"', '"cnn"\nprecision = "w1"')
    assert manifest(tmp_path, group).devices[0].tables["model"]["prototype"] == "cnn:w1"


def test_the_aggregator_reads_the_same_file(tmp_path: Path) -> None:
    assert load_fleet_config(write_manifest(tmp_path), environ={}).fleet == "garden"


def test_the_aggregator_still_refuses_what_nobody_reads(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, PI.replace("[[group]]", "[[groups]]"))
    for load in (load_fleet_config, load_manifest):
        with pytest.raises(ConfigError, match=r"unknown table \[groups\]; did you mean 'group'"):
            load(path, environ={})


def test_the_wifi_comes_from_the_secrets_and_its_password_is_not_told(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    found = manifest(tmp_path, PI + 'wifi = "home"\n', provision='secrets = "secrets.toml"')
    assert found.devices[0].wifi is not None
    assert found.devices[0].wifi.password == "password"
    assert "'wifi': 'IEEE'" in str(found.facts())
    assert "'password'" not in str(found.facts())
    assert "'password'" not in repr(found)


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


def test_host_and_names_of_the_broker(tmp_path: Path) -> None:
    fleet = FLEET + '[broker]\nhost = "10.0.0.2"\nport = 1883\n'
    found = manifest(tmp_path, fleet=fleet, provision='host = "broker.lan"\nport = 8884\nserver_names = ["b"]')
    assert (found.host, found.port) == ("broker.lan", 8884)
    assert found.server_names == ("broker.lan", "10.0.0.2", "b", "localhost", "127.0.0.1")


def test_tls_files_of_the_aggregator_need_not_be_there_yet(tmp_path: Path) -> None:
    fleet = FLEET + '[broker]\n[broker.tls]\nca = "kits/_fleet/aggregator/ca.pem"\n'
    assert manifest(tmp_path, fleet=fleet).port == 8883


def test_a_device_is_found_by_name(tmp_path: Path) -> None:
    found = manifest(tmp_path)
    assert found.device("pi-02").id == "pi-02"
    with pytest.raises(ConfigError, match="no device 'pi-2'; did you mean"):
        found.device("pi-2")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("count = 2", "", "give either 'count' or 'devices'"),
        ("count = 2", 'count = 2\ndevices = ["a"]', "give either 'count' or 'devices'"),
        ("count = 2", 'devices = ["Attic"]', "an id is 1 to 48"),
        ("count = 2", 'devices = ["aggregator"]', "reserved"),
        ("count = 2", 'devices = ["a", "a"]', "each device has one"),
        ("count = 2", "count = 0", "of at least 1|from 1 to"),
        ('"rpi-4"', '"rpi-9"', "no board 'rpi-9'; did you mean"),
        ('"cnn:w1"', '"cnn:fp32"', r"not one of \[prototypes\] names: cnn:w1 mlp:fp32"),
        ('"cnn:w1"', '"cnn:w1"\ndata = "samples.npz"', "absolute path"),
        ('"cnn:w1"', '"cnn:w1"\nos = ["bokworm"]', "did you mean 'bookworm'"),
        ('"cnn:w1"', '"cnn:w1"\ncolour = "red"', "unknown key 'colour'"),
        ('"cnn:w1"', '"cnn:w1"\nwifi = "home"', "no Wi-Fi 'home'"),
        ('"cnn:w1"', '"cnn:w1"\n[group.settings.train]\nthread = 1', "did you mean 'threads'"),
        ('"cnn:w1"', '"cnn:w1"\n[group.settings.keys]\nprivate = "x"', "settings: unknown table 'keys'"),
        ('"cnn:w1"', '"cnn:w1"\n[group.settings.data]\npath = "/x"', "unknown key 'path'"),
        ('"cnn:w1"', '"cnn:w1"\n[group.settings.model]\ngraph = "x.onnx"', "unknown key 'graph'"),
        ('"cnn:w1"', '"cnn:w1"\n[group.settings.model]\nrefresh = "once"', "known: always offers never"),
    ],
)
def test_a_mistake_is_refused_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in PI
    with pytest.raises(ConfigError, match=said) as raised:
        manifest(tmp_path, PI.replace(old, new))
    assert str(raised.value).count(str(tmp_path / "fleet.toml")) >= 1


def test_wifi_where_nothing_sets_it_up_is_refused(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    group = PI.replace("rpi-4", "jetson-orin-nano") + 'wifi = "home"\n'
    with pytest.raises(ConfigError, match="bookworm and cloud-init only, not on jetson"):
        manifest(tmp_path, group, provision='secrets = "secrets.toml"')


def test_a_file_without_groups_is_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no \[\[group\]\]"):
        manifest(tmp_path, "")


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


def test_the_option_goes_before_the_file_and_profiles_of_the_user_are_found(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, PI.replace("rpi-4", "rock-5"), provision='boards_dir = "boards"')
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards/rock-5.toml").write_text((FOLDER / "rpi-5.toml").read_text())
    found = load_manifest(path, wheels="none", environ={})
    assert (found.wheels, found.devices[0].board.name) == ("none", "rock-5")
    with pytest.raises(ConfigError, match="--wheels is 'usb'; known: card fleet network none"):
        load_manifest(path, wheels="usb", environ={})


def test_more_memory_than_the_board_has_for_it_is_refused_with_the_numbers(tmp_path: Path) -> None:
    said = r"'memory_mb' is 1800, but .* may use 1800 MB of the 4096 MB of a rpi-4"
    with pytest.raises(ConfigError, match=said):
        manifest(tmp_path, PI + "[group.settings.train]\nmemory_mb = 1800\n")
    (first, *_) = manifest(tmp_path, PI + "[group.settings.train]\nmemory_mb = 1799\n").devices
    assert first.tables["train"]["memory_mb"] == 1799


URL = "http://192.168.1.10:8090"


def test_boards_fetch_their_wheels_where_the_manifest_says(tmp_path: Path) -> None:
    found = manifest(tmp_path, provision=f'wheels = "fleet"\nwheels_url = "{URL}"')
    assert found.fetch == KitFetch(URL, always=True)
    assert found.facts()["provision"]["wheels_url"] == URL
    assert manifest(tmp_path, provision=f'wheels = "card"\nwheels_url = "{URL}"').fetch == KitFetch(URL, always=False)
    assert manifest(tmp_path).fetch is None


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ('wheels = "fleet"', r"wheels = 'fleet' needs 'wheels_url', the address of `edgestill kit serve`"),
        (f'wheels = "network"\nwheels_url = "{URL}"', r"'wheels_url' is not used with wheels = 'network'; remove one"),
        *(
            (f'wheels = "fleet"\nwheels_url = "{url}"', r"'wheels_url': '.*' is not an address such as http://192")
            for url in (
                "",
                "192.168.1.10:8090",
                "ftp://a",
                "http://",
                "http://a:b",
                "http://a b",
                "http://a/?x",
                "http://u:p@a",
            )
        ),
    ],
)
def test_an_address_that_boards_cannot_use_is_refused(tmp_path: Path, table: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"fleet\.toml \[provision\]: {why}"):
        manifest(tmp_path, provision=table)
