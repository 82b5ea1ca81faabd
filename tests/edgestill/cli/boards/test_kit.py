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
    assert (code, json.loads(out)["files"], json.loads(out)["wheels"]) == (0, 21, 1)
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


def test_what_boards_fetch_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firmware_configs.kits.wheel_set.shipped_lock", lambda target, mode, edgestill: {})
    for wheels, said in {"fleet": "fetched from", "card": "fetched if a card has no room from"}.items():
        text = f'wheels = "{wheels}"\nwheels_url = "http://10.0.0.2:8090"'
        kit = provision_fleet(write_manifest(tmp_path / wheels, provision=text)).out / "pi-01"
        assert f"MB), {said} http://10.0.0.2:8090; certificate" in run(capsys, "kit", "verify", kit)[1]
        facts = json.loads(run(capsys, "kit", "verify", kit, "--json")[1])
        assert facts["fetch"] == {"url": "http://10.0.0.2:8090", "always": wheels == "fleet"}


@pytest.mark.parametrize("listen", ["", "8090", "127.0.0.1", "a b:1", "127.0.0.1:99999", "[::1", "http://x:1"])
def test_wheels_are_served_at_an_address_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture, listen: str
) -> None:
    (tmp_path / "_wheels").mkdir()
    code, _, err = run(capsys, "kit", "serve", tmp_path, "--listen", listen)
    assert (code, err.count("\n")) == (3, 1)
    assert "give an address and a port, such as 0.0.0.0:8090" in err


def test_a_folder_without_wheels_is_not_served(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    code, _, err = run(capsys, "kit", "serve", tmp_path)
    assert (code, err.count("\n")) == (3, 1)
    assert f"{tmp_path}/_wheels: no such folder; `edgestill provision` makes it" in err
