"""`edgestill kit`."""

import json
from pathlib import Path

import pytest

from firmware_configs.use_cases.provision_fleet import provision_fleet
from firmware_configs.use_cases.revoke_device import revoke_certificates
from tests.edgestill.cli.typed import run
from tests.firmware_configs.fleets import write_manifest

pytestmark = pytest.mark.light


def test_a_kit_that_was_changed_does_not_verify(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run(capsys, "provision", write_manifest(tmp_path), "--out", tmp_path / "elsewhere")
    kit = tmp_path / "elsewhere" / "pi-01"
    code, out, _ = run(capsys, "kit", "verify", kit, "--json")
    assert (code, json.loads(out)["files"], json.loads(out)["wheels"]) == (0, 14, 1)
    (kit / "agent.toml").write_text("")
    code, _, err = run(capsys, "kit", "verify", kit)
    assert code == 5
    assert "agent.toml is not the file that was signed" in err
    code, _, err = run(capsys, "kit", "verify", kit, "--key", "0" * 64)
    assert code == 5
    code, _, err = run(capsys, "kit", "verify", tmp_path / "nowhere" / "pi-01")
    assert (code, err.count("\n")) == (3, 1)
    assert err.startswith(f"edgestill: kit {tmp_path}/nowhere/pi-01: there is no such folder")


def test_a_kit_is_written_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    code, out, _ = run(capsys, "kit", "export", kits / "pi-01", "--to", tmp_path / "a", "--os", "bookworm")
    assert (code, "the kit of pi-01 with 1 wheels" in out) == (0, True)
    code, out, _ = run(capsys, "kit", "export", kits / "pi-02", "--to", tmp_path / "b", "--json")
    assert (code, json.loads(out)["device"], json.loads(out)["wheels"]) == (0, "pi-02", 1)
    code, _, err = run(capsys, "kit", "export", kits / "pi-02", "--to", tmp_path / "b")
    assert (code, "is there already" in err) == (3, True)


def test_a_revoked_kit_is_whole_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    assert "REVOKED" not in run(capsys, "kit", "verify", kits / "pi-01")[1]
    revoke_certificates(kits, "garden", "pi-01")
    code, out, _ = run(capsys, "kit", "verify", kits / "pi-01")
    assert (code, out.rstrip().endswith(", REVOKED")) == (0, True)
