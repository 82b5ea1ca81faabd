"""`edgestill provision`, `kit`, `board`, `doctor`, and what `config check` and `device revoke` do for manifests."""

import json
from pathlib import Path

import pytest

from tests.edgestill.cli.typed import run
from tests.firmware_configs.fleets import FLEET, PI, write_manifest, write_secrets

pytestmark = pytest.mark.light
DEVICES = FLEET + '[devices]\nkeys_dir = "kits/_fleet/devices"\n'


def test_a_manifest_is_checked_provisioned_and_its_kits_verify(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    write_secrets(tmp_path)
    path = write_manifest(tmp_path, PI + 'wifi = "home"\n', fleet=DEVICES, provision='secrets = "secrets.toml"')
    code, out, err = run(capsys, "config", "check", path, "--json")
    assert code == 0, err
    assert "first create their files with `edgestill provision`" in err
    facts = json.loads(out)
    assert set(facts) == {"provision", "device pi-01", "device pi-02"}
    assert (facts["device pi-01"]["wifi"], facts["device pi-01"]["train.threads"]) == ("IEEE", 3)
    code, made, err = run(capsys, "provision", path)
    assert (code, err) == (0, "")
    assert "made: pi-01 pi-02\n" in made
    assert "password" not in out + made
    assert [line for line in made.splitlines() if line.startswith("keep ")]
    code, out, _ = run(capsys, "provision", path, "--renew", "pi-02", "--json")
    again = json.loads(out)
    assert (again["kept"], again["renewed"], again["made"]) == (["pi-01"], ["pi-02"], [])
    code, out, err = run(capsys, "config", "check", path, "--json")
    assert (code, err) == (0, "")
    assert set(json.loads(out)) > {"fleet", "round", "devices", "device pi-02"}
    for key in ([], ["--key", again["kit_key"]], ["--key", tmp_path / "kits/fleet-kit.pub"]):
        code, out, _ = run(capsys, "kit", "verify", tmp_path / "kits/pi-01", *key)
        assert code == 0
        assert out.startswith("pi-01 of garden, rpi-4 (bookworm cloud-init)")
