"""Kits are whole and signed, or refused."""

import json
import os
import stat
from pathlib import Path

import pytest

from core.errors import ConfigError, EdgestillError, SignatureError
from firmware_configs.kits.kit import Kit, KitFetch, KitFile, KitWheel, load_kit, recover_kit, write_kit
from wire.keys import generate_key

pytestmark = pytest.mark.light
KEY = generate_key()
FILES = {
    "agent.toml": KitFile(b"[agent]\n"),
    "tls/device.key": KitFile(b"secret", 0o600),
    "boot/bookworm/firstrun.sh": KitFile(b"#!/bin/sh\n", 0o755),
}


def a_kit(**changes: object) -> Kit:
    facts = {"fleet": "home", "device": "pi-07", "board": "rpi-4", "os": ("bookworm",), "files": FILES}
    return Kit(**{**facts, "created": "2026-11-16T10:00:00Z", **changes})


def written(folder: Path) -> Path:
    write_kit(folder / "pi-07", a_kit(), KEY)
    return folder / "pi-07"


def resigned(folder: Path, change: dict[str, object]) -> None:
    """A manifest with something changed, signed by the fleet all the same."""
    raw = json.dumps({**json.loads((folder / "kit.json").read_text()), **change}).encode()
    (folder / "kit.json").write_bytes(raw)
    (folder / "kit.sig").write_bytes(KEY.sign(raw))


def test_a_kit_comes_back_as_it_was_written(tmp_path: Path) -> None:
    kit = load_kit(written(tmp_path), KEY.public_key())
    assert kit == a_kit()
    assert kit.boot("bookworm") == {"firstrun.sh": FILES["boot/bookworm/firstrun.sh"]}
    assert set(kit.payload()) == {"agent.toml", "tls/device.key"}
    assert [name for name, file in kit.files.items() if file.secret] == ["tls/device.key"]


def test_wheels_are_signed_with_the_rest_and_a_kit_without_any_names_none(tmp_path: Path) -> None:
    wheels = {"torch-2.10.0-cp311-cp311-manylinux_2_28_aarch64.whl": KitWheel("1" * 64, 146, ("bookworm",))}
    write_kit(tmp_path / "pi-07", a_kit(wheels=wheels), KEY)
    assert load_kit(tmp_path / "pi-07", KEY.public_key()).wheels == wheels
    assert "wheels" not in json.loads(a_kit().manifest())
    for name in ("../torch.whl", "torch.tar.gz", "a b.whl"):
        with pytest.raises(ConfigError, match="is not the name of a wheel"):
            a_kit(wheels={name: KitWheel("1" * 64, 1, ())})
    resigned(tmp_path / "pi-07", {"wheels": {"a.whl": {"sha256": "1", "bytes": 1, "os": []}}})
    with pytest.raises(EdgestillError, match="SHA-256"):
        load_kit(tmp_path / "pi-07", KEY.public_key())


def test_modes_are_those_asked_for_whatever_the_umask(tmp_path: Path) -> None:
    former = os.umask(0o077)
    try:
        folder = written(tmp_path)
    finally:
        os.umask(former)
    modes = {name: stat.S_IMODE((folder / name).stat().st_mode) for name in FILES}
    assert modes == {name: file.mode for name, file in FILES.items()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_writing_again_replaces_the_whole_kit(tmp_path: Path) -> None:
    folder = written(tmp_path)
    write_kit(folder, a_kit(files={"agent.toml": KitFile(b"new")}), KEY)
    assert set(load_kit(folder, KEY.public_key()).files) == {"agent.toml"}
    assert [path.name for path in tmp_path.iterdir()] == ["pi-07"]


def test_what_an_interrupted_writing_left_does_not_disturb_the_next(tmp_path: Path) -> None:
    (tmp_path / ".pi-07.new" / "tls").mkdir(parents=True)
    (tmp_path / ".pi-07.new" / "stray").touch()
    assert load_kit(written(tmp_path), KEY.public_key()) == a_kit()


def test_a_kit_that_was_moved_aside_and_not_replaced_comes_back(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.rename(tmp_path / ".pi-07.old")  # a power cut between the two renames
    (tmp_path / ".pi-07.new").mkdir()
    recover_kit(folder)
    assert load_kit(folder, KEY.public_key()) == a_kit()
    assert [path.name for path in tmp_path.iterdir()] == ["pi-07"]


def test_another_fleets_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match=r"kit\.sig does not match"):
        load_kit(written(tmp_path), generate_key().public_key())


@pytest.mark.parametrize("name", ["kit.json", "kit.sig", *FILES])
def test_a_changed_byte_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    file = written(tmp_path) / name
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(SignatureError, match=r"kit\.sig does not match|not the file that was signed"):
        load_kit(tmp_path / "pi-07", KEY.public_key())


@pytest.mark.parametrize("name", ["kit.json", "kit.sig", *FILES])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (written(tmp_path) / name).unlink()
    with pytest.raises(ConfigError, match=name):
        load_kit(tmp_path / "pi-07", KEY.public_key())


def test_a_file_that_was_added_is_refused(tmp_path: Path) -> None:
    (written(tmp_path) / "tls" / "extra.pem").touch()
    with pytest.raises(SignatureError, match=r"tls/extra\.pem is not part of the kit"):
        load_kit(tmp_path / "pi-07", KEY.public_key())


def test_a_link_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "agent.toml").rename(tmp_path / "elsewhere")
    (folder / "agent.toml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SignatureError, match="link"):
        load_kit(folder, KEY.public_key())


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../b", "a//b", "./a", "", "a\\b", ".hidden", "a\nb"])
def test_a_path_that_could_leave_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="must be relative"):
        a_kit(files={path: KitFile(b"")})
    folder = written(tmp_path)
    resigned(folder, {"files": {path: {"sha256": "0" * 64, "mode": "0644"}}})
    with pytest.raises(ConfigError, match="must be relative"):
        load_kit(folder, KEY.public_key())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "schema 2, this edgestill supports 1"),
        ({"device": "Pi 7"}, "an id is 1 to 48"),
        ({"os": ["windows"]}, "unknown OS family"),
        ({"files": {"agent.toml": {"sha256": "0", "mode": "0644"}}}, "SHA-256"),
        ({"files": {"agent.toml": {"sha256": "0" * 64, "mode": "4755"}}}, "mode '4755'"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_signed_manifest_that_makes_no_sense_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    folder = written(tmp_path)
    resigned(folder, change)
    with pytest.raises(EdgestillError, match=said):
        load_kit(folder, KEY.public_key())


def test_a_folder_that_is_no_kit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is it a kit of `edgestill provision`"):
        load_kit(tmp_path, KEY.public_key())


def test_where_a_board_fetches_is_signed_too(tmp_path: Path) -> None:
    fetch = KitFetch("https://wheels.lan/edgestill", always=True)
    write_kit(tmp_path / "pi-07", a_kit(fetch=fetch), KEY)
    assert load_kit(tmp_path / "pi-07", KEY.public_key()).fetch == fetch
    assert "fetch" not in json.loads(a_kit().manifest())
    resigned(tmp_path / "pi-07", {"fetch": {"url": "file:///etc/passwd", "always": True}})
    with pytest.raises(ConfigError, match="not an address such as"):
        load_kit(tmp_path / "pi-07", KEY.public_key())
