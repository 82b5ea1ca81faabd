"""Configuration structs: known fields, checked values, and where each value comes from."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from core.local_defaults import LocalSettings, with_defaults
from core.settings import (
    Settings,
    check,
    describe,
    given,
    plain,
    read,
    read_tables,
    replace,
)
from tests.core.sample_settings import Agent, Tls

pytestmark = pytest.mark.light


def agent(table: dict[str, Any], **more: Any) -> Agent:
    return read(Agent, {"device": "pi", **table}, "a.toml [agent]", environ=more.pop("environ", {}), **more)


def test_defaults_fill_what_is_not_given() -> None:
    assert agent({}) == Agent(device="pi")
    assert given(Agent, {"lr": 1}, "a.toml", environ={}) == {"lr": 1.0}


def test_some_fields_of_a_struct_can_be_read_alone() -> None:
    some = {name: describe(Agent)[name] for name in ("device", "lr")}
    assert given(some, {"device": "pi"}, "a.toml", environ={}, complete=True) == {"device": "pi"}
    with pytest.raises(ConfigError, match=r"^a.toml: unknown key 'threads'; known: device lr$"):
        given(some, {"threads": 1}, "a.toml", environ={})
    with pytest.raises(ConfigError, match=r"^a.toml: 'device' is missing; give a string$"):
        given(some, {}, "a.toml", environ={}, complete=True)


def test_a_file_of_tables_is_a_struct_of_structs() -> None:
    class File(Settings, frozen=True, kw_only=True):
        agent: Agent
        local: LocalSettings

    file = {"agent": {"device": "pi", "state": "s"}, "other": 1}
    made = read_tables(File, file, "a.toml", env="E", environ={"E_LOCAL_LR": "0.5"}, base=Path("/etc"))
    assert made == File(agent=Agent(device="pi", state=Path("/etc/s")), local=LocalSettings(lr=0.5))
    with pytest.raises(
        ConfigError, match=r"^a.toml \[agent\]: 'device' is missing; give a string or set E_AGENT_DEVICE$"
    ):
        read_tables(File, {}, "a.toml", env="E", environ={})
    with pytest.raises(ConfigError, match=r"^a.toml: 'local' is 1, expected a table \[local\]$"):
        read_tables(File, {**file, "local": 1}, "a.toml", environ={})


def test_the_flag_wins_over_the_environment_over_the_file_over_the_default() -> None:
    def threads(**more: Any) -> Any:
        return agent(**more, env="EDGESTILL").threads

    environ = {"EDGESTILL_THREADS": "3"}
    assert threads(table={}) == 1
    assert threads(table={"threads": 2}) == 2
    assert threads(table={"threads": 2}, environ=environ) == 3
    assert threads(table={"threads": 2}, environ=environ, flags={"threads": None}) == 3
    assert threads(table={"threads": 2}, environ=environ, flags={"threads": 4}) == 4


def test_a_relative_path_of_the_file_lies_beside_the_file_and_one_of_the_environment_does_not() -> None:
    base = Path("/etc/edgestill")
    assert agent({"state": "s"}, base=base).state == Path("/etc/edgestill/s")
    assert agent({"state": "/abs"}, base=base).state == Path("/abs")
    assert agent({"files": ["a", "/b"]}, base=base).files == (base / "a", Path("/b"))
    assert agent({"tls": {"ca": "ca.pem"}}, base=base).tls == Tls(ca=base / "ca.pem")
    assert agent({}, base=base, env="E", environ={"E_STATE": "s"}).state == Path("s")
    assert agent({}, base=base, flags={"state": Path("s")}).state == Path("s")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"thread": 1}, ": unknown key 'thread'; did you mean 'threads'?"),
        ({"zzz": 1}, f": unknown key 'zzz'; known: {' '.join(Agent.__struct_fields__)}"),
        ({"threads": 9}, ": 'threads' is 9, expected a whole number from 1 to 8"),
        ({"password": 1234}, ": 'password' is (hidden), expected a string"),
        ({"size": "3by4"}, ": 'size' is '3by4'; write it like \"3x4\""),
        ({"tls": 1}, ": 'tls' is 1, expected a table"),
    ],
)
def test_a_wrong_value_is_told_with_its_place_and_what_is_expected(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        agent(table)
    assert str(caught.value) == f"a.toml [agent]{message}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "a.toml [agent.tls]: 'ca' is missing; give a path"),
        ({"caa": "x"}, "a.toml [agent.tls]: unknown key 'caa'; did you mean 'ca'?"),
        ({"ca": "x", "cert": "x"}, "a.toml [agent.tls]: 'cert' is the ca"),
    ],
)
def test_a_struct_inside_is_a_table_with_its_own_place(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        agent({"tls": table}, env="E")
    assert str(caught.value) == message


def test_a_wrong_flag_or_variable_is_told_by_its_own_name() -> None:
    with pytest.raises(ConfigError, match=r"^--memory-mb is 0, expected"):
        agent({}, flags={"memory_mb": 0})
    with pytest.raises(ConfigError, match=r"^E_THREADS is 'two', expected a whole number$"):
        agent({}, env="E", environ={"E_THREADS": "two"})


def test_a_variable_is_a_text_that_becomes_the_fields_type() -> None:
    made = agent({}, env="E", environ={"E_SIZE": "3x4", "E_LABELS": "0, 3", "E_VERBOSE": "Yes"})
    assert (made.size, made.labels, made.verbose) == ((3, 4), (0, 3), True)


def test_a_field_without_default_must_be_given_somewhere() -> None:
    with pytest.raises(ConfigError, match=r"^a.toml: 'device' is missing; give a string$"):
        read(Agent, {}, "a.toml", environ={})
    with pytest.raises(ConfigError, match=r"give a string or set E_DEVICE$"):
        read(Agent, {}, "a.toml", env="E", environ={})
    assert read(Agent, {}, "a.toml", env="E", environ={"E_DEVICE": "pi"}).device == "pi"


def test_a_struct_made_by_a_program_can_be_checked_too() -> None:
    check(Agent(device="pi", tls=Tls(ca=Path("x"))))
    with pytest.raises(ConfigError, match=r"^'threads' is 0, expected a whole number from 1 to 8$"):
        check(Agent(device="pi", threads=0))
    with pytest.raises(ConfigError, match=r"^run: 'lr' is nan, expected a number of at least 0$"):
        check(Agent(device="pi", lr=float("nan")), "run")


def test_secrets_are_in_no_repr_and_no_table_but_in_the_pickle() -> None:
    config = Agent(device="pi", password="hunter2", tls=Tls(ca=Path("x")))
    assert "hunter2" not in repr(config)
    assert repr(Tls(ca=Path("x"))) == f"Tls(ca={Path('x')!r}, cert=None)"
    assert plain(config)["password"] == "(given)"
    assert plain(config)["tls"] == {"ca": "x", "cert": None}
    assert plain(Agent(device="pi"))["password"] is None
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301


def test_a_changed_struct_is_checked_again() -> None:
    tls = Tls(ca=Path("x"))
    assert replace(tls, cert=Path("y")) == Tls(ca=Path("x"), cert=Path("y"))
    with pytest.raises(ConfigError, match=r"^'cert' is the ca$"):
        replace(tls, cert=Path("x"))


def test_settings_of_local_training_are_the_ones_that_have_defaults() -> None:
    assert set(with_defaults()) | {"weight_decay", "prox"} == set(LocalSettings.__struct_fields__)
