"""What holds a secret is its owner's alone: files 0600, the folders they lie in 0700."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_agent.config import EnrolConfig
from edge_agent.enrolment import own_keys
from edgestill.cli.main import main
from firmware_configs.provision import provision
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_folder
from tests.firmware_configs.fleets import PI, manifest, write_secrets

pytestmark = pytest.mark.light
WIFI = PI + 'wifi = "home"\n'
MARKS = (b"PRIVATE KEY", b"psk", b"preshared")


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """Nothing may depend on the user's own umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def secrets(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if any(mark in path.read_bytes() for mark in MARKS)]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_provision_and_enrolment_make_is_for_its_owner(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    made = manifest(tmp_path, WIFI, provision='secrets = "secrets.toml"')
    provision(made)
    found = secrets(tmp_path)
    assert len(found) >= 9  # of two devices: keys for TLS and signing, Wi-Fi; authority, kits, broker, aggregator
    for path in found:
        assert mode(path) == 0o600, path
    for folder in ("pi-01", "pi-02", "_fleet/authority", "_fleet/broker", "_fleet/aggregator"):
        assert mode(made.out / folder) == 0o700, folder
    for folder in (path for path in made.out.rglob("*") if path.is_dir()):
        assert not mode(folder) & 0o022, folder
    board = tmp_path / "board"
    claim = EnrolConfig(cert=Path(), key=Path(), ca=Path(), identity=board / "identity")
    claim.identity.mkdir(parents=True, mode=0o700)
    own_keys(claim.identity)
    assert len(secrets(board)) == 2
    assert {mode(path) for path in secrets(board)} == {0o600}


def test_what_flash_and_keys_make_is_for_its_owner(tmp_path: Path) -> None:
    made = manifest(tmp_path)
    provision(made)
    root = make_folder(tmp_path / "card", BOOKWORM)
    for command in (["flash", made.out / "pi-01", "--to", root], ["keys", "make", "--out", tmp_path / "some.key"]):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in command])
        assert ended.value.code == 0
    found = [*secrets(root), tmp_path / "some.key"]
    assert len(found) == 3
    assert {mode(path) for path in found} == {0o600}
