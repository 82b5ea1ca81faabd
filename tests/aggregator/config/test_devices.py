"""The table [devices]: keys by name and by folder, and every mistake with its place."""

from pathlib import Path
from typing import Any

import pytest

from aggregator.config.devices import device_keys
from core.errors import ConfigError
from tests.aggregator.scripted import key_of
from wire.keys import public_key_hex, save_public_key

pytestmark = pytest.mark.light
WHERE = "fleet.toml [devices]"


def entry(name: str) -> dict[str, str]:
    return {"key": public_key_hex(key_of(name).public_key())}


def folder_of(base: Path, *names: str) -> None:
    (base / "keys").mkdir()
    for name in names:
        save_public_key(key_of(name).public_key(), base / "keys" / f"{name}.pub")


def test_keys_come_from_the_table_and_from_files_of_the_folder_beside_the_file(tmp_path: Path) -> None:
    folder_of(tmp_path, "pi-8", "pi-9")
    (tmp_path / "keys" / "pi-7.key").write_text("of another kind")
    table = {"keys_dir": "keys", "pi-0": entry("pi-0")}
    found = device_keys(table, WHERE, tmp_path)
    assert found == {name: key_of(name).public_key() for name in ("pi-0", "pi-8", "pi-9")}
    assert "keys_dir" in table  # the caller's table is as it was


def test_the_key_of_the_table_wins_over_a_file_of_that_device(tmp_path: Path) -> None:
    folder_of(tmp_path, "pi-0")
    assert device_keys({"keys_dir": "keys", "pi-0": entry("new")}, WHERE, tmp_path) == {
        "pi-0": key_of("new").public_key()
    }


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"pi-0": 3}, "'pi-0' is 3; write it as pi-0 = { key = \"64 hex digits\" }"),
        ({"pi-0": {"key": "abc"}}, "pi-0: public key 'abc': must be 64 hex digits"),
        ({"pi-0": {}}, "pi-0: 'key' is missing; give a string"),
        ({"pi-0": {"kye": "abc"}}, "pi-0: unknown key 'kye'; did you mean 'key'?"),
        ({"all": entry("all")}, "this id is reserved"),
        ({"Pi 0": entry("x")}, "an id is 1 to 48"),
        ({"keys_dir": "nowhere"}, "'keys_dir': there is no folder"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        device_keys(table, WHERE, tmp_path)
    assert str(caught.value).startswith(WHERE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_key_is_named_once_and_one_of_no_device_too(tmp_path: Path) -> None:
    folder_of(tmp_path)
    file = tmp_path / "keys" / "pi-1.pub"
    file.write_text("no key")
    with pytest.raises(ConfigError) as caught:
        device_keys({"keys_dir": "keys"}, WHERE, tmp_path)
    assert str(caught.value) == f"{WHERE}: {file}: not a public key in PEM"
    file.rename(file.with_name("Pi 1.pub"))
    with pytest.raises(ConfigError, match=r"Pi 1\.pub: .*an id is 1 to 48"):
        device_keys({"keys_dir": "keys"}, WHERE, tmp_path)
