"""`edgestill kit`."""

import json
from pathlib import Path

import pytest

from firmware_configs.boards import Board
from firmware_configs.use_cases.provision_fleet import provision_fleet
from firmware_configs.use_cases.revoke_device import revoke_certificates
from tests.edgestill.cli.typed import run
from tests.firmware_configs.fleets import write_manifest

pytestmark = pytest.mark.light


def test_a_kit_that_was_changed_does_not_verify(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run(capsys, "provision", write_manifest(tmp_path), "--out", tmp_path / "elsewhere")
    kit = tmp_path / "elsewhere" / "pi-01"
    code, out, _ = run(capsys, "kit", "verify", kit, "--json")
    assert (code, json.loads(out)["files"]) == (0, 12)
    (kit / "agent.toml").write_text("")
    code, _, err = run(capsys, "kit", "verify", kit)
    assert code == 5
    assert "agent.toml is not the file that was signed" in err
    code, _, err = run(capsys, "kit", "verify", kit, "--key", "0" * 64)
    assert code == 5
    code, _, err = run(capsys, "kit", "verify", tmp_path / "nowhere" / "pi-01")
    assert (code, err.count("\n")) == (3, 1)
    assert err.startswith(f"edgestill: kit {tmp_path}/nowhere/pi-01: there is no such folder")


def test_wheels_are_those_of_the_named_board_and_their_size_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def collect(board: Board, python: str, folder: Path, *, package: str) -> list[Path]:
        asked.append((board.name, python, folder, package))
        (folder / "a.whl").write_bytes(bytes(1_500_000))
        return [folder / "a.whl"]

    monkeypatch.setattr("firmware_configs.kits.wheels.collect_wheels", collect)
    code, out, _ = run(capsys, "kit", "wheels", "--board", "rpi-4", "--out", tmp_path, "--package", "./src")
    assert (code, " ".join(out.split())) == (0, f"1 wheels in {tmp_path}, 1.5 MB")
    assert asked == [("rpi-4", "3.11", tmp_path, "./src")]
    _, out, _ = run(capsys, "kit", "wheels", "--board", "rpi-4", "--out", tmp_path, "--json")
    assert json.loads(out) == {"wheels": ["a.whl"], "bytes": 1_500_000}
    code, _, err = run(capsys, "kit", "wheels", "--board", "rpi-44", "--out", tmp_path)
    assert (code, "no board 'rpi-44'" in err, len(asked)) == (3, True, 2)


def test_a_revoked_kit_is_whole_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    kits = provision_fleet(write_manifest(tmp_path)).out
    assert "REVOKED" not in run(capsys, "kit", "verify", kits / "pi-01")[1]
    revoke_certificates(kits, "garden", "pi-01")
    code, out, _ = run(capsys, "kit", "verify", kits / "pi-01")
    assert (code, out.rstrip().endswith(", REVOKED")) == (0, True)
