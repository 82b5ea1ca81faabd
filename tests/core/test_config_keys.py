"""Config tables: known keys, checked values, and where each value comes from."""

from pathlib import Path
from typing import Any

import pytest

from core.config_keys import Key, read_toml, sub_table, take
from core.errors import ConfigError

pytestmark = pytest.mark.light

KEYS = {
    "device": Key(str),
    "threads": Key(int, 1, least=1, most=8),
    "lr": Key(float, 0.1, least=0),
    "verbose": Key(bool, False),
    "state": Key(Path, None),
    "tags": Key(tuple, ()),
    "floats": Key(str, "fp16", choices=("fp16", "fp32")),
    "broker": Key(dict, None),
}


def taken(table: dict[str, Any], **more: Any) -> dict[str, Any]:
    return take({"device": "pi", **table}, "a.toml [agent]", KEYS, environ=more.pop("environ", {}), **more)


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


def test_defaults_fill_what_is_not_given() -> None:
    assert taken({}) == {
        "device": "pi",
        "threads": 1,
        "lr": 0.1,
        "verbose": False,
        "state": None,
        "tags": (),
        "floats": "fp16",
        "broker": None,
    }


def test_the_flag_wins_over_the_environment_over_the_file_over_the_default() -> None:
    def threads(**more: Any) -> Any:
        return taken(**more, env="EDGESTILL")["threads"]

    environ = {"EDGESTILL_THREADS": "3"}
    assert threads(table={}) == 1
    assert threads(table={"threads": 2}) == 2
    assert threads(table={"threads": 2}, environ=environ) == 3
    assert threads(table={"threads": 2}, environ=environ, flags={"threads": None}) == 3
    assert threads(table={"threads": 2}, environ=environ, flags={"threads": 4}) == 4


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("verbose", "Yes", True),
        ("verbose", "0", False),
        ("lr", "1e-3", 0.001),
        ("lr", "2", 2.0),
        ("tags", "a, b,,c", ("a", "b", "c")),
        ("tags", "", ()),
        ("state", "/var/x", Path("/var/x")),
        ("floats", "fp32", "fp32"),
    ],
)
def test_an_environment_variable_is_text_that_becomes_the_keys_type(name: str, text: str, value: Any) -> None:
    assert taken({}, env="E", environ={f"E_{name.upper()}": text})[name] == value


def test_a_relative_path_of_the_file_lies_beside_the_file_and_one_of_the_environment_does_not() -> None:
    base = Path("/etc/edgestill")
    assert taken({"state": "s"}, base=base)["state"] == Path("/etc/edgestill/s")
    assert taken({"state": "/abs"}, base=base)["state"] == Path("/abs")
    assert taken({}, base=base, env="E", environ={"E_STATE": "s"})["state"] == Path("s")
    assert taken({}, base=base, flags={"state": Path("s")})["state"] == Path("s")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"thread": 1}, "a.toml [agent]: unknown key 'thread'; did you mean 'threads'?"),
        ({"zzz": 1}, "a.toml [agent]: unknown key 'zzz'; known: device threads lr verbose state tags floats broker"),
        ({"threads": "2"}, "a.toml [agent]: 'threads' is '2', expected a whole number"),
        ({"threads": True}, "a.toml [agent]: 'threads' is True, expected a whole number"),
        ({"threads": 1.0}, "a.toml [agent]: 'threads' is 1.0, expected a whole number"),
        ({"threads": 9}, "a.toml [agent]: 'threads' is 9, expected a whole number from 1 to 8"),
        ({"lr": -1}, "a.toml [agent]: 'lr' is -1.0, expected a number of at least 0"),
        ({"lr": float("nan")}, "a.toml [agent]: 'lr' is nan, expected a number of at least 0"),
        ({"lr": True}, "a.toml [agent]: 'lr' is True, expected a number"),
        ({"verbose": 1}, "a.toml [agent]: 'verbose' is 1, expected true or false"),
        ({"state": ""}, "a.toml [agent]: 'state' is '', expected a path"),
        ({"tags": "a"}, "a.toml [agent]: 'tags' is 'a', expected a list of strings"),
        ({"tags": ["a", 1]}, "a.toml [agent]: 'tags' is ('a', 1), expected a list of strings"),
        ({"floats": "fp23"}, "a.toml [agent]: 'floats' is 'fp23'; did you mean 'fp32'?; known: fp16 fp32"),
        ({"broker": 1}, "a.toml [agent]: 'broker' is 1, expected a table"),
    ],
)
def test_a_wrong_value_is_told_with_its_place_and_what_is_expected(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        taken(table)
    assert str(caught.value) == message


def test_a_wrong_flag_or_variable_is_told_by_its_own_name() -> None:
    with pytest.raises(ConfigError, match=r"^--threads is 0, expected"):
        taken({}, flags={"threads": 0})
    with pytest.raises(ConfigError, match=r"^E_THREADS is 'two', expected a whole number$"):
        taken({}, env="E", environ={"E_THREADS": "two"})


def test_a_secret_is_not_repeated_when_it_is_wrong() -> None:
    with pytest.raises(ConfigError, match=r"^a.toml: 'password' is \(hidden\), expected a string$"):
        take({"password": 1234}, "a.toml", {"password": Key(str, secret=True)}, environ={})


def test_a_key_without_default_must_be_given_somewhere() -> None:
    with pytest.raises(ConfigError, match=r"^a.toml: 'device' is missing; give a string$"):
        take({}, "a.toml", KEYS, environ={})
    with pytest.raises(ConfigError, match=r"give a string or set E_DEVICE$"):
        take({}, "a.toml", KEYS, env="E", environ={})
    assert take({}, "a.toml", KEYS, env="E", environ={"E_DEVICE": "pi"})["device"] == "pi"


def test_a_missing_table_is_empty_and_a_value_in_its_place_is_refused() -> None:
    assert sub_table({"broker": {"port": 1}}, "broker", "a.toml") == {"port": 1}
    assert sub_table({}, "broker", "a.toml") == {}
    with pytest.raises(ConfigError, match=r"^a.toml: 'broker' is 3, expected a table \[broker\]$"):
        sub_table({"broker": 3}, "broker", "a.toml")
