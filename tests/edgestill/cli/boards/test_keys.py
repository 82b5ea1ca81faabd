"""`edgestill keys`."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.errors import ConfigError, SignatureError
from edgestill.cli.boards import keys
from wire.keys import load_private_key, load_public_key, public_key_hex


def call(app, *args: object) -> str:
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_key_is_made_for_its_owner_alone_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "pi.pem"
    made = call(keys.app, "make", "--out", path).strip()
    assert made == public_key_hex(load_private_key(path).public_key())
    assert public_key_hex(load_public_key(tmp_path / "pi.pem.pub")) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert call(keys.app, "show", path).strip() == made
    assert call(keys.app, "show", f"{path}.pub").strip() == made
    assert json.loads(call(keys.app, "show", path, "--json"))["public_hex"] == made


def test_a_key_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "pi.pem"
    first = call(keys.app, "make", "--out", path)
    with pytest.raises(ConfigError, match="--force"):
        call(keys.app, "make", "--out", path)
    facts = json.loads(call(keys.app, "make", "--out", path, "--force", "--json"))
    assert facts["public_hex"] != first.strip()
    assert facts["public"] == f"{path}.pub"


def test_a_public_half_that_is_there_is_not_replaced_either(tmp_path: Path) -> None:
    (tmp_path / "pi.pem.pub").write_text("of another key")
    with pytest.raises(ConfigError, match=r"pi\.pem\.pub: exists already; --force"):
        call(keys.app, "make", "--out", tmp_path / "pi.pem")
    assert not (tmp_path / "pi.pem").exists()


def test_what_is_no_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no key")
    (tmp_path / "x").chmod(0o600)
    with pytest.raises(SignatureError, match="not a private key in PEM"):
        call(keys.app, "show", tmp_path / "x")
