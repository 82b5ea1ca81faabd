"""`es.Fleet`: what the commands do, as methods."""

import threading
from pathlib import Path

import pytest

import edgestill as es
from core.errors import ConfigError, DataError
from edgestill.api.fleet import serve_fleet
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_folder
from tests.firmware_configs.fleets import write_manifest


def test_a_fleet_is_provisioned_and_flashed(tmp_path: Path) -> None:
    fleet = es.Fleet.from_toml(write_manifest(tmp_path))
    assert fleet.devices == ("pi-01", "pi-02")
    assert fleet.provision().done.made == ["pi-01", "pi-02"]
    assert fleet.provision(renew=["pi-02"]).done.renewed == ["pi-02"]
    card = make_folder(tmp_path / "card", BOOKWORM)
    assert not fleet.flash("pi-02", to=card, dry_run=True).written
    assert fleet.flash("pi-02", to=card).plan.device == "pi-02"
    assert fleet.flash(to=make_folder(tmp_path / "other", BOOKWORM)).plan.device == "pi-01"
    with pytest.raises(ConfigError, match="no device 'pi-1'; did you mean"):
        fleet.flash("pi-1", to=card)


def test_kits_may_be_elsewhere(tmp_path: Path) -> None:
    fleet = es.Fleet.from_toml(write_manifest(tmp_path), kits=tmp_path / "elsewhere")
    assert fleet.provision().out == tmp_path / "elsewhere"


def test_a_file_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(es.EdgestillError, match=r"none\.toml"):
        es.Fleet.from_toml(tmp_path / "none.toml")


def test_serve_reads_the_settings_of_the_command(tmp_path: Path) -> None:
    fleet = es.Fleet.from_toml(write_manifest(tmp_path))
    with pytest.raises(ConfigError, match=r"no key 'roundz' in .round.; did you mean 'rounds'"):
        fleet.serve(settings={"round.roundz": 3})


def test_serve_needs_the_main_thread(tmp_path: Path) -> None:
    caught: list[Exception] = []

    def call() -> None:
        try:
            serve_fleet(tmp_path / "fleet.toml", [])
        except (ConfigError, DataError) as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "call it in the main thread" in str(caught[0])
