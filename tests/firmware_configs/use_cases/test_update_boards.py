"""From a manifest and its kits to a signed bundle and a command for the service."""

from __future__ import annotations

import io
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.downlink.upgrades import ABORT, UPGRADE
from aggregator.storage.journal import Journal
from core.errors import ConfigError
from edgestill import __version__
from firmware_configs.identity.ca import open_authority
from firmware_configs.kits.kit import KitFetch
from firmware_configs.kits.lock import FOLDER
from firmware_configs.kits.own_wheel import own_wheel
from firmware_configs.manifest import Manifest, load_manifest
from firmware_configs.on_board.bundles import open_bundle
from firmware_configs.provision import authority_folder, provision
from firmware_configs.use_cases.update_boards import (
    Asked,
    Offer,
    abort_update,
    choose,
    offer_update,
    update_status,
)
from tests.firmware_configs.fleets import FLEET, PI, write_manifest
from tests.firmware_configs.wheels import add_wheel
from wire.keys import load_public_key

pytestmark = pytest.mark.light
DEVICES = FLEET + '[devices]\nkeys_dir = "kits/_fleet/devices"\n'
Made = tuple[Manifest, FleetConfig]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("fleet")
    path = write_manifest(folder, PI + PI.replace('"pi"', '"more"'), fleet=DEVICES)
    found = load_manifest(path, environ={})
    provision(found)
    fleet = load_fleet_config(path, environ={})
    fleet.state.mkdir()
    with closing(Journal(fleet.state / "journal.db")) as journal, journal.transaction():
        journal.note_device("pi-02", status="online")
    return found, fleet


def offered(made: Made, *, to: str = __version__, groups: tuple[str, ...] = ("pi",), **asked: object) -> Offer:
    manifest, fleet = made
    devices = choose(manifest, (), groups, everything=False)
    return offer_update(manifest, fleet, Asked(to=to, devices=devices, **asked))  # type: ignore[arg-type]


def manifest_of(made: Made, offer: Offer) -> dict:
    manifest, fleet = made
    key = load_public_key(manifest.out / "fleet-kit.pub")
    file = io.BytesIO((fleet.state / "bundles" / offer.bundle).read_bytes())
    return open_bundle(file, lambda data, signature: key.verify(signature, data) is None)


def newest_command(fleet: FleetConfig) -> tuple[str, dict]:
    with closing(Journal(fleet.state / "journal.db")) as journal:
        command = journal.commands()[-1]
        return command.verb, json.loads(command.argument or "{}")


def test_what_travels_is_what_the_kits_do_not_have_and_the_lock_is_whole(made: Made) -> None:
    offer = offered(made)
    assert offer.wheels == (own_wheel().file,)
    facts = manifest_of(made, offer)
    assert (facts["fleet"], facts["version"], facts["number"]) == ("garden", own_wheel().version, offer.number)
    told = [(t["machine"], t["python"], t["devices"], t["network"], t["fetch"]) for t in facts["targets"]]
    assert sorted(told) == [
        ("aarch64", python, ["pi-01", "pi-02"], True, None)
        for python in sorted({target.python for target in made[0].device("pi-01").targets.values()})
    ]
    assert "torch==2.7.1" in facts["targets"][0]["lock"]


def test_the_service_is_asked_with_online_devices_as_canaries(made: Made) -> None:
    offer = offered(made, canary=1, wait_s=3600.0)
    assert (offer.devices, offer.canaries) == (("pi-02", "pi-01"), ("pi-02",))
    verb, asked = newest_command(made[1])
    assert (verb, asked["bundle"], asked["devices"], asked["canary"]) == (UPGRADE, offer.bundle, ["pi-02", "pi-01"], 1)
    assert [path.name for path in (made[1].state / "bundles").iterdir()] == [offer.bundle]


def test_a_device_that_takes_no_update_is_no_canary(made: Made) -> None:
    def announce(device: str, upgrades: str) -> None:
        with closing(Journal(made[1].state / "journal.db")) as journal:
            journal.put(f"software:{device}", json.dumps({"version": "0.1.0", "upgrades": upgrades}))

    announce("pi-02", "not supported here")
    assert offered(made, canary=1).canaries == ("pi-01",)
    announce("pi-01", "")
    with pytest.raises(ConfigError, match="no device that is meant takes an update; pi-02: not supported here"):
        offered(made, canary=1)
    for device in ("pi-01", "pi-02"):
        announce(device, "1")


def test_a_dry_run_leaves_nothing(made: Made) -> None:
    manifest, fleet = made
    before = newest_command(fleet)
    devices = choose(manifest, ("pi-01",), (), everything=False)
    offer = offer_update(manifest, fleet, Asked(to=__version__, devices=devices), dry_run=True)
    assert (offer.answer, newest_command(fleet)) == ("", before)
    assert not (fleet.state / "bundles" / offer.bundle).exists()


def test_with_a_fetch_address_only_the_lock_travels(made: Made) -> None:
    manifest = replace(made[0], wheels="fleet", fetch=KitFetch("http://127.0.0.1:8090", True), packages=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firmware_configs.kits.wheel_set.shipped_lock", lambda *_: {})
        offer = offered((manifest, made[1]))
    facts = manifest_of(made, offer)
    assert (offer.wheels, facts["wheels"]) == ((), {})
    target = facts["targets"][0]
    assert (target["fetch"], target["network"]) == ("http://127.0.0.1:8090", False)
    assert target["others"][own_wheel().file]["sha256"] == own_wheel().sha256


def test_another_version_comes_from_its_wheel_with_its_own_locks(made: Made, tmp_path: Path) -> None:
    locks = {f"firmware_configs/locks/{path.name}": path.read_text() for path in FOLDER.glob("arm64-*-full.txt")}
    changed = {name: text.replace("torch==2.7.1", "torch==9.9.9") for name, text in locks.items()}
    add_wheel(tmp_path, "edgestill", "9.0.0", files=changed)
    (wheel,) = tmp_path.iterdir()
    offer = offered(made, to="9.0.0", wheel=wheel)
    facts = manifest_of(made, offer)
    assert (facts["version"], list(facts["wheels"])) == ("9.0.0", [wheel.name])
    assert all("torch==9.9.9" in target["lock"] for target in facts["targets"])
    with pytest.raises(ConfigError, match=r"that wheel has edgestill 9\.0\.0"):
        offered(made, to="9.0.1", wheel=wheel)


def test_a_version_that_is_not_here_says_what_to_do(made: Made) -> None:
    with pytest.raises(ConfigError, match=r"--to 99: this machine has edgestill .*; install 99 here, or"):
        offered(made, to="99")


def test_who_is_meant(made: Made) -> None:
    manifest, _ = made
    named = choose(manifest, ("more-01",), ("pi",), everything=False)
    assert [device.id for device in named] == ["pi-01", "pi-02", "more-01"]
    assert len(choose(manifest, (), (), everything=True)) == 4
    for names, groups, everything in (((), (), False), (("pi-01",), (), True)):
        with pytest.raises(ConfigError, match="name devices, give --group, or give --all"):
            choose(manifest, names, groups, everything=everything)
    with pytest.raises(ConfigError, match="did you mean 'more'"):
        choose(manifest, (), ("mor",), everything=False)
    with open_authority(authority_folder(manifest.out), "garden") as authority:
        authority.revoke("more-02")
        authority.save()
    assert [device.id for device in choose(manifest, (), ("more",), everything=False)] == ["more-01"]
    with pytest.raises(ConfigError, match="was revoked"):
        choose(manifest, ("more-02",), (), everything=False)


def test_boards_whose_packages_are_their_owners_are_left_alone(made: Made) -> None:
    with pytest.raises(ConfigError, match='wheels = "none"'):
        offered((replace(made[0], wheels="none"), made[1]))


def test_it_can_be_ended_and_its_state_asked(made: Made) -> None:
    assert "it will abort-upgrade when it starts" in abort_update(made[1])
    assert newest_command(made[1])[0] == ABORT
    assert update_status(made[1]) == {}  # nothing was begun: no service runs
