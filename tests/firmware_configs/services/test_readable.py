"""What another user may read, as the kernel would say."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.services.readable import Account, find_account

pytestmark = pytest.mark.light


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="edgestill-readable-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_accounts_are_found_by_name_and_number() -> None:
    me = pwd.getpwuid(os.geteuid())
    assert find_account(me.pw_name) == find_account(me.pw_uid)
    assert me.pw_gid in find_account(me.pw_uid).groups


def test_a_missing_user_is_one_line_that_says_how_to_make_one() -> None:
    with pytest.raises(
        ConfigError, match=r"^there is no user 'nobody-here'; make it: sudo useradd --system .* nobody-here$"
    ):
        find_account("nobody-here")


def test_bits_are_those_of_owner_group_or_others(folder: Path) -> None:
    file = folder / "key"
    file.touch()
    mine, my_group = file.stat().st_uid, file.stat().st_gid
    owner = Account("a", "a", uid=mine or 1, groups=frozenset())
    member = Account("b", "b", uid=12345, groups=frozenset({my_group}))
    other = Account("c", "c", uid=12346, groups=frozenset())
    for mode, readers in ((0o600, "o"), (0o640, "om"), (0o604, "oc"), (0o040, "m"), (0o000, "")):
        file.chmod(mode)
        found = {name for name, account in (("m", member), ("c", other)) if account.may_read(file)}
        assert found == set(readers) - {"o"}, oct(mode)
    if mine:
        file.chmod(0o600)
        assert owner.may_read(file)
    assert Account("root", "root", uid=0, groups=frozenset()).may_read(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize(
    ("inner", "mode", "readable"), [(0o755, 0o644, True), (0o700, 0o644, False), (0o711, 0o600, False)]
)
def test_it_agrees_with_the_kernel(folder: Path, inner: int, mode: int, readable: bool) -> None:
    (folder / "in").mkdir()
    file = folder / "in" / "file"
    file.write_text("x")
    file.chmod(mode)
    (folder / "in").chmod(inner)
    read = subprocess.run(["cat", str(file)], capture_output=True, check=False, user="nobody", group="nogroup")
    assert (read.returncode == 0) is readable
    assert find_account("nobody").may_read(file) is readable
