"""Who was revoked is handed nothing any more, until somebody undoes it."""

import shutil
from pathlib import Path

import pytest

from core.errors import ConfigError
from edgestill.cli.main import main
from firmware_configs.flash.flashed import next_kit
from firmware_configs.identity.ca import open_authority
from firmware_configs.manifest import Manifest
from firmware_configs.provision import authority_folder, provision, publish_revocations
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_folder
from tests.firmware_configs.fleets import manifest

pytestmark = pytest.mark.light


@pytest.fixture
def made(tmp_path: Path) -> Manifest:
    found = manifest(tmp_path)
    provision(found)
    return found


def revoke(made: Manifest, device: str) -> None:
    with open_authority(authority_folder(made.out), "garden") as authority:
        authority.revoke(device)
        authority.save()
        publish_revocations(made.out, authority)


def readmit(made: Manifest, device: str) -> None:
    with open_authority(authority_folder(made.out), "garden") as authority:
        authority.readmit(device)
        authority.save()


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_flash_and_push_refuse_a_revoked_kit_and_next_passes_it_over(
    made: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert next_kit(made.out, "bookworm").name == "pi-01"
    revoke(made, "pi-01")
    assert next_kit(made.out, "bookworm").name == "pi-02"
    card = make_folder(tmp_path / "card", BOOKWORM)
    before = sorted(path.name for path in card.rglob("*"))
    for command in (["flash", made.out / "pi-01", "--to", card], ["push", made.out / "pi-01", "root@nowhere"]):
        code, _, err = run(capsys, *command)
        assert (code, "kit pi-01: its certificate was revoked" in err, err.count("\n")) == (3, True, 1)
    assert sorted(path.name for path in card.rglob("*")) == before
    code, out, _ = run(capsys, "kit", "verify", made.out / "pi-01")
    assert (code, out.rstrip().endswith("REVOKED")) == (0, True)
    revoke(made, "pi-02")
    with pytest.raises(ConfigError, match="but 2, which were revoked"):
        next_kit(made.out, "bookworm")


def test_provision_gives_a_revoked_device_nothing_new(made: Manifest) -> None:
    revoke(made, "pi-01")
    with pytest.raises(ConfigError, match=r"pi-01 was revoked; .*--undo"):
        provision(made, renew=["pi-01"])
    assert provision(made).revoked == ["pi-01"]
    shutil.rmtree(made.out / "pi-01")  # a kit that is gone is not made again
    done = provision(made)
    assert (done.revoked, done.made, (made.out / "pi-01").exists()) == (["pi-01"], [], False)


def test_undone_the_device_gets_a_new_certificate_and_its_old_one_stays_revoked(made: Manifest) -> None:
    revoke(made, "pi-01")
    readmit(made, "pi-01")
    with pytest.raises(ConfigError, match="but 1, which were revoked"):
        next_kit_without(made, "pi-02")
    assert provision(made, renew=["pi-01"]).renewed == ["pi-01"]
    assert next_kit(made.out, "bookworm").name == "pi-01"
    revoke(made, "pi-01")  # and it can be put out again
    with pytest.raises(ConfigError, match="pi-01 was revoked"):
        provision(made, renew=["pi-01"])


def next_kit_without(made: Manifest, device: str) -> Path:
    (made.out / "flashed.json").write_text(f'{{"{device}": {{"kit": "", "when": "", "target": ""}}}}')
    try:
        return next_kit(made.out, "bookworm")
    finally:
        (made.out / "flashed.json").unlink()


@pytest.mark.parametrize("damage", [b"", b"\0garbage", None])
def test_a_list_that_cannot_be_read_is_told(
    made: Manifest, damage: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crl = made.out / "_fleet" / "broker" / "crl.pem"
    if damage is None:
        with open_authority(tmp_path / "other", "garden", days=10) as other:
            crl.write_bytes(other.crl())
    else:
        crl.write_bytes(damage)
    card = make_folder(tmp_path / "card", BOOKWORM)
    code, _, err = run(capsys, "flash", made.out / "pi-01", "--to", card)
    assert (code, "crl.pem" in err, err.count("\n")) == (3, True, 1)
