"""Kits and identities: made once, changed when the manifest is, renewed when asked."""

import json
import stat
import time
from datetime import timedelta
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from core.errors import ConfigError, SignatureError
from edge_agent.config import read_agent_config
from firmware_configs.boards import FOLDER, read_board
from firmware_configs.identity.ca import open_authority
from firmware_configs.identity.identities import ends
from firmware_configs.kits.kit import KitFetch, load_kit
from firmware_configs.kits.own_wheel import own_wheel
from firmware_configs.on_board import fetch_wheels, report_failure
from firmware_configs.provision import authority_folder, provision
from tests.firmware_configs.fleets import FLEET, PI, manifest, write_manifest, write_secrets
from wire.keys import load_private_key, load_public_key, public_key_hex

pytestmark = pytest.mark.light


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_kit_is_what_the_agent_reads_and_the_aggregator_knows(tmp_path: Path) -> None:
    tables = '[broker.tls]\nca = "kits/_fleet/aggregator/ca.pem"\ncert = "kits/_fleet/aggregator/aggregator.pem"\n'
    tables += 'key = "kits/_fleet/aggregator/aggregator.key"\n[devices]\nkeys_dir = "kits/_fleet/devices"\n'
    done = provision(manifest(tmp_path, fleet=FLEET + tables))
    assert (done.made, done.servers) == (["pi-01", "pi-02"], ["broker", "aggregator"])
    agent = read_agent_config(tmp_path / "kits/pi-01/agent.toml", environ={})
    assert (agent.fleet, agent.device, agent.prototype, agent.train.threads) == ("garden", "pi-01", "cnn:w1", 3)
    fleet = load_fleet_config(tmp_path / "fleet.toml", environ={})
    assert set(fleet.devices) == {"pi-01", "pi-02"}
    device = load_private_key(agent.private_key).public_key()
    assert public_key_hex(fleet.devices["pi-01"]) == public_key_hex(device)
    assert public_key_hex(agent.aggregator_key()) == public_key_hex(load_private_key(fleet.key).public_key())


def test_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    provision(manifest(tmp_path, PI + 'wifi = "home"\n', provision='secrets = "secrets.toml"'))
    key = b"f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"
    found = 0
    for path in (tmp_path / "kits").rglob("*"):
        if path.is_file() and (b"PRIVATE KEY" in path.read_bytes() or key in path.read_bytes()):
            found += 1
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert found == 2 * (2 + 2) + 4  # a kit: two keys, two boot files; authority, kits, broker, aggregator


def test_a_kit_brings_the_users_own_profile_of_its_board_and_a_unit_of_its_memory(tmp_path: Path) -> None:
    (tmp_path / "boards").mkdir()
    profile = (FOLDER / "rpi-5.toml").read_text()
    (tmp_path / "boards/rock-5.toml").write_text(profile)
    own = PI.replace("rpi-4", "rock-5").replace('"pi"', '"rock"') + "[group.settings.train]\nmemory_mb = 500\n"
    provision(manifest(tmp_path, PI + own, provision='boards_dir = "boards"'))
    assert (tmp_path / "kits/rock-01/board.toml").read_text() == profile
    assert not (tmp_path / "kits/pi-01/board.toml").exists()
    unit = (tmp_path / "kits/rock-01/edgestill-agent.service").read_text()
    board = read_board(FOLDER / "rpi-5.toml")
    assert f"MemoryMax={500 + board.service_mb - board.train_mb}M\n" in unit


def test_running_again_changes_nothing(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    before = {name: data for name, data in snapshot(tmp_path / "kits").items() if not name.endswith("crl.pem")}
    done = provision(manifest(tmp_path))
    assert (done.made, done.changed, done.kept, done.servers) == ([], [], ["pi-01", "pi-02"], [])
    after = snapshot(tmp_path / "kits")
    assert {name: after[name] for name in before} == before


def test_more_devices_leave_the_others_alone(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    before = snapshot(tmp_path / "kits" / "pi-01")
    done = provision(manifest(tmp_path, PI.replace("count = 2", "count = 3")))
    assert (done.made, done.kept) == (["pi-03"], ["pi-01", "pi-02"])
    assert snapshot(tmp_path / "kits" / "pi-01") == before


def test_a_setting_that_changes_makes_the_kit_again_with_the_same_keys(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    before = snapshot(tmp_path / "kits" / "pi-01")
    done = provision(manifest(tmp_path, PI.replace("cnn:w1", "mlp:fp32")))
    assert done.changed == ["pi-01", "pi-02"]
    after = snapshot(tmp_path / "kits" / "pi-01")
    assert {name for name in before if before[name] != after[name]} == {
        *("kit.json", "kit.sig", "agent.toml", "boot/cloud-init/meta-data")  # a new instance for cloud-init
    }


def test_renewing_gives_a_new_certificate_and_keeps_the_signing_key(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    before, other = (snapshot(tmp_path / "kits" / name) for name in ("pi-01", "pi-02"))
    done = provision(manifest(tmp_path), renew=["pi-01"])
    assert (done.renewed, done.kept) == (["pi-01"], ["pi-02"])
    after = snapshot(tmp_path / "kits" / "pi-01")
    assert after["device.key"] == before["device.key"]
    assert after["tls/device.key"] != before["tls/device.key"]
    assert after["tls/device.pem"] != before["tls/device.pem"]
    assert snapshot(tmp_path / "kits" / "pi-02") == other


def test_certificates_that_end_soon_are_told(tmp_path: Path) -> None:
    done = provision(manifest(tmp_path, provision="days = 20"))
    assert done.ending == ["pi-01", "pi-02"]
    done = provision(manifest(tmp_path, provision="days = 100"), renew=["pi-01"])
    assert done.ending == ["pi-02"]
    pem = (tmp_path / "kits/pi-01/tls/device.pem").read_bytes()
    assert ends(pem) - ends((tmp_path / "kits/pi-02/tls/device.pem").read_bytes()) >= timedelta(days=79)


def test_a_kit_that_somebody_changed_is_not_taken_over(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    (tmp_path / "kits/pi-02/install.sh").write_text("#!/bin/sh\nrm -rf /\n")
    with pytest.raises(SignatureError, match=r"pi-02: install\.sh is not the file that was signed"):
        provision(manifest(tmp_path))


def test_a_run_that_was_cut_short_is_taken_up(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    before = snapshot(tmp_path / "kits" / "pi-01")
    (tmp_path / "kits/pi-01").rename(tmp_path / "kits/.pi-01.old")
    assert provision(manifest(tmp_path)).kept == ["pi-01", "pi-02"]
    assert snapshot(tmp_path / "kits" / "pi-01") == before


def test_kits_of_devices_that_left_the_manifest_are_told_and_left(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    done = provision(manifest(tmp_path, PI.replace("count = 2", "count = 1")))
    assert done.strangers == ["pi-02"]
    assert (tmp_path / "kits/pi-02/kit.json").exists()


def test_renewing_a_device_that_is_not_there_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no device 'pi-9'"):
        provision(manifest(tmp_path), renew=["pi-9"])
    assert not (tmp_path / "kits").exists()


def test_another_fleet_does_not_share_the_folder(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    with pytest.raises(ConfigError, match="authority of another fleet"):
        provision(manifest(tmp_path, fleet=FLEET.replace("garden", "forest")))


def test_every_kit_verifies_with_the_public_key_beside_it(tmp_path: Path) -> None:
    write_manifest(tmp_path)
    provision(manifest(tmp_path))
    kit = load_kit(tmp_path / "kits/pi-02", load_public_key(tmp_path / "kits/fleet-kit.pub"))
    assert (kit.device, kit.board, kit.os) == ("pi-02", "rpi-4", ("bookworm", "cloud-init"))
    with open_authority(authority_folder(tmp_path / "kits"), "garden") as authority:
        assert sorted(entry.name for entry in authority.issued) == ["aggregator", "broker", "pi-01", "pi-02"]


def test_a_light_devices_graph_is_in_its_kit(tmp_path: Path) -> None:
    (tmp_path / "cnn.onnx").write_bytes(b"graph")
    provision(manifest(tmp_path, PI.replace("rpi-4", "rpi-zero-2w") + 'graph = "cnn.onnx"\n'))
    kit = tmp_path / "kits" / "pi-01"
    assert (kit / "model.onnx").read_bytes() == b"graph"
    assert read_agent_config(kit / "agent.toml", environ={}).graph == kit / "model.onnx"
    assert "torch" not in (kit / "locks/py3.11.txt").read_text()


@pytest.mark.slow
def test_two_hundred_kits_take_seconds(tmp_path: Path) -> None:
    fleet = manifest(tmp_path, PI.replace("count = 2", "count = 200"))
    start = time.process_time()
    assert len(provision(fleet).made) == 200
    assert time.process_time() - start < 10  # CPU seconds, 1.2 measured; the disk adds its own


def test_edgestills_own_wheel_goes_with_every_kit_once(tmp_path: Path) -> None:
    provision(manifest(tmp_path))
    kit = load_kit(tmp_path / "kits/pi-02", load_public_key(tmp_path / "kits/fleet-kit.pub"))
    own = own_wheel()
    assert {name: wheel.sha256 for name, wheel in kit.wheels.items()} == {own.file: own.sha256}
    assert [path.read_bytes() for path in (tmp_path / "kits/_wheels").rglob("*.whl")] == [own.data]
    assert f"edgestill=={own.version} " in kit.files["locks/py3.13.txt"].data.decode()
    older = tmp_path / "kits/_wheels" / ("0" * 64) / "edgestill-0.0-py3-none-any.whl"
    older.parent.mkdir()
    older.write_bytes(b"of an earlier run")
    assert provision(manifest(tmp_path)).kept == ["pi-01", "pi-02"]
    assert not older.parent.exists()
    bare = provision(manifest(tmp_path, provision='wheels = "none"'))
    assert bare.changed == ["pi-01", "pi-02"]
    kit = load_kit(tmp_path / "kits/pi-02", load_public_key(tmp_path / "kits/fleet-kit.pub"))
    assert (kit.wheels, [name for name in kit.files if name.startswith("locks/")]) == ({}, [])


def test_a_kit_whose_board_fetches_its_wheels_names_them_and_has_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firmware_configs.kits.wheel_set.shipped_lock", lambda target, mode, edgestill: {})
    older = tmp_path / "kits/_wheels" / ("0" * 64) / "edgestill-0.0-py3-none-any.whl"
    older.parent.mkdir(parents=True)
    older.write_bytes(b"of a card that was not booted yet")
    provision(manifest(tmp_path, provision='wheels = "fleet"\nwheels_url = "http://10.0.0.2:8090"'))
    kit = load_kit(tmp_path / "kits/pi-01", load_public_key(tmp_path / "kits/fleet-kit.pub"))
    own = own_wheel()
    assert kit.fetch == KitFetch("http://10.0.0.2:8090", always=True)
    assert {name: wheel.sha256 for name, wheel in kit.wheels.items()} == {own.file: own.sha256}
    assert kit.files["fetch_wheels.py"].data == Path(fetch_wheels.__file__).read_bytes()
    script = kit.files["install.sh"].data.decode()
    assert "\nwheels=fleet\n" in script
    assert "\nfetch=1\n" in script
    assert older.is_file()  # boards with an earlier kit still ask for the wheels of that
    kit = load_kit(tmp_path / "kits/pi-02", load_public_key(tmp_path / "kits/fleet-kit.pub"))
    facts = json.loads(kit.files["report.json"].data)
    assert facts == {"fleet": "garden", "device": "pi-02", "host": "127.0.0.1", "port": 8883}
    assert kit.files["report_failure.py"].data == Path(report_failure.__file__).read_bytes()


def test_a_package_that_cannot_be_had_is_told_with_the_group(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pi, rpi-4: packages: '\./mine': no folder with a pyproject\.toml"):
        provision(manifest(tmp_path, provision='packages = ["./mine"]'))
