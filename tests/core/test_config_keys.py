"""TOML files: what they hold, and what is wrong with one that cannot be read."""

from pathlib import Path

import pytest

from core.config_keys import read_toml, sub_table
from core.errors import ConfigError

pytestmark = pytest.mark.light


def test_a_file_is_read_with_its_tables(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[agent]\ndevice = "pi-07"\n[agent.broker]\nport = 1\n')
    assert read_toml(file) == {"agent": {"device": "pi-07", "broker": {"port": 1}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[agent]\ndevice 7\n", "a.toml, line 2, column 8: expected '=' after a key in a key/value pair"),
        (b"a = [1,\n", "a.toml, end of document: invalid value"),
        (b"a = 1\na = 2\n", "a.toml, line 2, column 6: cannot overwrite a value"),
        (b"a = '\xff'\n", "a.toml: byte 5 is not UTF-8; save it as UTF-8 text"),
        (None, "a.toml: No such file or directory; give the path of a config file"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "a.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_toml(file)
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_a_missing_table_is_empty_and_a_value_in_its_place_is_refused() -> None:
    assert sub_table({"broker": {"port": 1}}, "broker", "a.toml") == {"port": 1}
    assert sub_table({}, "broker", "a.toml") == {}
    with pytest.raises(ConfigError, match=r"^a.toml: 'broker' is 3, expected a table \[broker\]$"):
        sub_table({"broker": 3}, "broker", "a.toml")
