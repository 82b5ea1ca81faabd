"""The token: shown once, stored as a hash."""

import json
import re
from pathlib import Path

import pytest

from core.errors import ConfigError
from edgestill.web.token import has_token, is_token, make_token


def test_a_token_is_known_again_and_its_file_does_not_have_it(tmp_path: Path) -> None:
    assert not has_token(tmp_path)
    assert not is_token(tmp_path, "")
    token = make_token(tmp_path)
    assert re.fullmatch(r"[\w-]{43}", token)
    file = tmp_path / "web-token.json"
    assert (file.stat().st_mode & 0o777, token in file.read_text()) == (0o600, False)
    assert is_token(tmp_path, f" {token}\n")
    assert [is_token(tmp_path, text) for text in ("", token[:-1], token.upper(), "x" * 10**6)] == [False] * 4


def test_a_new_token_replaces_the_one_before(tmp_path: Path) -> None:
    first, second = make_token(tmp_path), make_token(tmp_path)
    assert (is_token(tmp_path, first), is_token(tmp_path, second)) == (False, True)


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"created": 1})])
def test_a_damaged_file_is_told_with_its_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "web-token.json").write_text(text)
    with pytest.raises(ConfigError, match=r"damaged .*; make a new one: edgestill web token"):
        is_token(tmp_path, "x")
