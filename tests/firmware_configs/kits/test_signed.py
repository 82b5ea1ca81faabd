"""Which key a kit must be signed with, and that what is used is what was checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError, EdgestillError, SignatureError
from firmware_configs.kits import signed
from firmware_configs.kits.signed import kit_key, open_kit
from tests.firmware_configs.flash.made_cards import KEY, make_kit
from wire.keys import generate_key, public_key_hex, save_public_key

pytestmark = pytest.mark.light


def test_the_key_lies_beside_the_kit_or_is_pinned_as_digits_or_as_a_file(tmp_path: Path) -> None:
    kit, key = make_kit(tmp_path / "kits"), KEY.public_key()
    save_public_key(key, tmp_path / "pinned.pub")
    digits = public_key_hex(key)
    for said in (None, digits, digits.upper(), str(tmp_path / "pinned.pub")):
        assert kit_key(kit, said) == key
    (tmp_path / "link").symlink_to(kit)
    assert kit_key(tmp_path / "link", None) == key, "beside the kit, not beside the link"


def test_a_pinned_key_wins_over_the_one_beside_the_kit(tmp_path: Path) -> None:
    kit = make_kit(tmp_path / "kits")
    with pytest.raises(SignatureError):
        open_kit(kit, public_key_hex(generate_key().public_key()))


def test_an_opened_kit_comes_with_the_bytes_that_were_signed(tmp_path: Path) -> None:
    folder = make_kit(tmp_path / "kits")
    kit, parts = open_kit(folder, None)
    assert kit.device == "pi-07"
    assert parts == {name: (folder / name).read_bytes() for name in ("kit.json", "kit.sig")}


def test_a_kit_that_is_replaced_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_kit(tmp_path / "kits")
    real = signed.load_kit

    def replaced(*given: object) -> object:
        kit = real(*given)  # type: ignore[arg-type]
        (folder / "kit.json").write_bytes((folder / "kit.json").read_bytes().replace(b"pi-07", b"pi-08"))
        return kit

    monkeypatch.setattr(signed, "load_kit", replaced)
    with pytest.raises(SignatureError, match="it was changed while it was read; try again"):
        open_kit(folder, None)


@pytest.mark.parametrize(
    ("folder", "said", "says"),
    [
        ("kits/none", None, "there is no such folder; kits are created by `edgestill provision`"),
        ("alone", None, r"no fleet-kit\.pub next to it; give the fleet's kit key with --key"),
        ("kits/pi-07", "abc", "key abc: cannot be read"),
    ],
)
def test_a_kit_or_a_key_that_is_not_there_is_told(tmp_path: Path, folder: str, said: str | None, says: str) -> None:
    make_kit(tmp_path / "kits")
    (tmp_path / "alone").mkdir()
    with pytest.raises(EdgestillError, match=says) as caught:
        kit_key(tmp_path / folder, said)
    assert isinstance(caught.value, ConfigError)
