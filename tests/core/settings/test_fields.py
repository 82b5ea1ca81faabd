"""What annotations say of fields, and which are refused."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from core.settings import (
    REQUIRED,
    Settings,
    describe,
    within,
)
from tests.core.sample_settings import Agent, Tls

pytestmark = pytest.mark.light


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

    class Flags(Settings, frozen=True, kw_only=True):
        parts: tuple[bool, ...] = ()

    for struct, name in ((Odd, "Odd.both"), (Open, "Open.above"), (Flags, "Flags.parts")):
        with pytest.raises(TypeError, match=rf"^{name}: no kind of setting"):
            describe(struct)


def test_choices_keep_the_order_in_which_they_were_written_as_messages_and_help_show_it() -> None:
    class Order(Settings, frozen=True, kw_only=True):
        words: Literal["state", "delta", "onnx"] = "state"
        maybe: Literal[8, 1, 4] | None = None

    fields = describe(Order)
    assert (fields["words"].choices, fields["words"].optional) == (("state", "delta", "onnx"), False)
    assert (fields["maybe"].choices, fields["maybe"].kind, fields["maybe"].optional) == ((8, 1, 4), int, True)


def test_meta_inside_of_none_counts_as_meta_of_the_field() -> None:
    class Inside(Settings, frozen=True, kw_only=True):
        most: Annotated[int, within(2, 9, "of all", secret=True, panel="Limits")] | None = None

    most = describe(Inside)["most"]
    assert (most.least, most.most, most.help, most.optional) == (2, 9, "of all", True)
    assert (most.secret, most.extra["panel"]) == (True, "Limits")
