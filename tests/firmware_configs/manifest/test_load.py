"""A manifest is read whole, or refused with the place of the mistake."""

from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from core.errors import ConfigError
from firmware_configs.kits.kit import KitFetch
from firmware_configs.manifest import load_manifest
from tests.firmware_configs.fleets import FLEET, PI, manifest, write_manifest

pytestmark = pytest.mark.light
URL = "http://192.168.1.10:8090"


def test_the_aggregator_reads_the_same_file(tmp_path: Path) -> None:
    assert load_fleet_config(write_manifest(tmp_path), environ={}).fleet == "garden"


def test_the_aggregator_still_refuses_what_nobody_reads(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, PI.replace("[[group]]", "[[groups]]"))
    for load in (load_fleet_config, load_manifest):
        with pytest.raises(ConfigError, match=r"unknown table \[groups\]; did you mean 'group'"):
            load(path, environ={})


def test_host_and_names_of_the_broker(tmp_path: Path) -> None:
    fleet = FLEET + '[broker]\nhost = "10.0.0.2"\nport = 1883\n'
    found = manifest(tmp_path, fleet=fleet, provision='host = "broker.lan"\nport = 8884\nserver_names = ["b"]')
    assert (found.host, found.port) == ("broker.lan", 8884)
    assert found.server_names == ("broker.lan", "10.0.0.2", "b", "localhost", "127.0.0.1")


def test_tls_files_of_the_aggregator_need_not_be_there_yet(tmp_path: Path) -> None:
    fleet = FLEET + '[broker]\n[broker.tls]\nca = "kits/_fleet/aggregator/ca.pem"\n'
    assert manifest(tmp_path, fleet=fleet).port == 8883


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


def test_a_file_without_groups_is_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no \[\[group\]\]"):
        manifest(tmp_path, "")


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
