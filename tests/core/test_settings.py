"""Configuration structs: known fields, checked values, and where each value comes from."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from core.errors import ConfigError
from core.local_defaults import LocalSettings, with_defaults
from core.settings import REQUIRED, Settings, check, describe, given, plain, read, replace, value_of, within

pytestmark = pytest.mark.light


def parse_size(value: Any) -> tuple[int, ...]:
    words = str(value).split("x")
    if not all(word.isdecimal() for word in words):
        raise ValueError('write it like "3x4"')
    return tuple(map(int, words))


class Tls(Settings, frozen=True, kw_only=True):
    ca: Path
    cert: Path | None = None

    def __post_init__(self) -> None:
        if self.cert == self.ca:
            raise ConfigError("'cert' is the ca")


class Agent(Settings, frozen=True, kw_only=True):
    device: str
    threads: Annotated[int, Meta(ge=1, le=8, description="of the child", extra={"panel": "Limits"})] = 1
    lr: Annotated[float, Meta(ge=0)] = 0.1
    verbose: bool = False
    state: Path | None = None
    tags: tuple[str, ...] = ()
    floats: Literal["fp16", "fp32"] = "fp16"
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tls: Tls | None = None
    bits: Literal[1, 8] = 8
    labels: tuple[int, ...] = ()
    files: tuple[Path, ...] = ()
    password: Annotated[str, Meta(extra={"secret": True})] | None = None
    size: Annotated[tuple[int, ...], Meta(extra={"parse": parse_size})] = (1,)
    memory_mb: Annotated[int, Meta(ge=64)] | None = None


def agent(table: dict[str, Any], **more: Any) -> Agent:
    return read(Agent, {"device": "pi", **table}, "a.toml [agent]", environ=more.pop("environ", {}), **more)


def test_defaults_fill_what_is_not_given() -> None:
    assert agent({}) == Agent(device="pi")
    assert given(Agent, {"lr": 1}, "a.toml", environ={}) == {"lr": 1.0}


def test_the_flag_wins_over_the_environment_over_the_file_over_the_default() -> None:
    def threads(**more: Any) -> Any:
        return agent(**more, env="EDGESTILL").threads

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
        ("bits", "1", 1),
        ("labels", "0, 3", (0, 3)),
        ("files", "a,/b", (Path("a"), Path("/b"))),
        ("size", "3x4", (3, 4)),
    ],
)
def test_an_environment_variable_is_text_that_becomes_the_fields_type(name: str, text: str, value: Any) -> None:
    assert getattr(agent({}, env="E", environ={f"E_{name.upper()}": text}), name) == value
    assert value_of(describe(Agent)[name], text, "x") == value


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
        ({"threads": "2"}, ": 'threads' is '2', expected a whole number"),
        ({"threads": True}, ": 'threads' is True, expected a whole number"),
        ({"threads": 1.0}, ": 'threads' is 1.0, expected a whole number"),
        ({"threads": 9}, ": 'threads' is 9, expected a whole number from 1 to 8"),
        ({"memory_mb": 9}, ": 'memory_mb' is 9, expected a whole number of at least 64"),
        ({"memory_mb": 2**53 + 1}, ": 'memory_mb' is 9007199254740993, expected a whole number from 64 to 9.0072e+15"),
        ({"lr": -1}, ": 'lr' is -1.0, expected a number of at least 0"),
        ({"lr": float("nan")}, ": 'lr' is nan, expected a number of at least 0"),
        ({"lr": True}, ": 'lr' is True, expected a number"),
        ({"verbose": 1}, ": 'verbose' is 1, expected true or false"),
        ({"state": ""}, ": 'state' is '', expected a path"),
        ({"tags": "a"}, ": 'tags' is 'a', expected a list of strings"),
        ({"tags": ["a", 1]}, ": 'tags' is ('a', 1), expected a list of strings"),
        ({"labels": ["a"]}, ": 'labels' is ('a',), expected a list of whole numbers"),
        ({"files": [""]}, ": 'files' is ('',), expected a list of paths"),
        ({"floats": "fp23"}, ": 'floats' is 'fp23'; did you mean 'fp32'?; known: fp16 fp32"),
        ({"bits": 3}, ": 'bits' is 3; known: 1 8"),
        ({"options": 1}, ": 'options' is 1, expected a table"),
        ({"tls": 1}, ": 'tls' is 1, expected a table"),
        ({"password": 1234}, ": 'password' is (hidden), expected a string"),
        ({"size": "3by4"}, ": 'size' is '3by4'; write it like \"3x4\""),
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


def test_a_field_without_default_must_be_given_somewhere() -> None:
    with pytest.raises(ConfigError, match=r"^a.toml: 'device' is missing; give a string$"):
        read(Agent, {}, "a.toml", environ={})
    with pytest.raises(ConfigError, match=r"give a string or set E_DEVICE$"):
        read(Agent, {}, "a.toml", env="E", environ={})
    assert read(Agent, {}, "a.toml", env="E", environ={"E_DEVICE": "pi"}).device == "pi"


def test_fields_are_described_for_flags_docs_and_sweeps() -> None:
    fields = describe(Agent)
    assert list(fields) == list(Agent.__struct_fields__)
    assert fields["device"].default is REQUIRED
    threads = fields["threads"]
    assert (threads.kind, threads.default, threads.least, threads.most) == (int, 1, 1, 8)
    assert (threads.help, threads.extra["panel"], threads.optional) == ("of the child", "Limits", False)
    assert fields["floats"].choices == ("fp16", "fp32")
    assert fields["memory_mb"].optional
    assert fields["memory_mb"].flag == "--memory-mb"
    assert (fields["tls"].kind, fields["tls"].table) == (dict, Tls)
    assert (fields["labels"].kind, fields["labels"].item) == (tuple, int)
    assert fields["options"].default == {}


def test_a_dataclass_is_described_as_a_struct_is() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Round:
        number: Annotated[int, within(1, 9, "counted from 1", panel="Rounds")] = 1
        agent: Agent | None = None
        labels: tuple[int, ...] = ()

    fields = describe(Round)
    number = fields["number"]
    assert (number.kind, number.default, number.least, number.most) == (int, 1, 1, 9)
    assert (number.help, number.extra["panel"]) == ("counted from 1", "Rounds")
    assert (fields["agent"].table, fields["labels"].item) == (Agent, int)


def test_an_annotation_that_is_no_setting_is_found_out_when_it_is_described() -> None:
    class Odd(Settings, frozen=True, kw_only=True):
        both: int | str = 0

    class Open(Settings, frozen=True, kw_only=True):
        above: Annotated[float, Meta(gt=0)] = 1.0

    for struct, name in ((Odd, "Odd.both"), (Open, "Open.above")):
        with pytest.raises(TypeError, match=rf"^{name}: no kind of setting"):
            describe(struct)


def test_a_struct_made_by_a_program_can_be_checked_too() -> None:
    check(Agent(device="pi", tls=Tls(ca=Path("x"))))
    with pytest.raises(ConfigError, match=r"^'threads' is 0, expected a whole number from 1 to 8$"):
        check(Agent(device="pi", threads=0))
    with pytest.raises(ConfigError, match=r"^run: 'lr' is nan, expected a number of at least 0$"):
        check(Agent(device="pi", lr=float("nan")), "run")


def test_secrets_are_in_no_repr_and_no_table_but_in_the_pickle() -> None:
    config = Agent(device="pi", password="hunter2", tls=Tls(ca=Path("x")))
    assert "hunter2" not in repr(config)
    assert "password=(hidden)" in repr(config)
    assert "password=None" in repr(Agent(device="pi"))
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
