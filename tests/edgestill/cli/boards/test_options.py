"""Options that several commands about boards share mean the same in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from edgestill.cli.main import app

pytestmark = pytest.mark.light


def commands(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    if hasattr(group, "commands"):
        for word, command in group.commands.items():
            yield from commands(command, f"{name} {word}".strip())
    else:
        yield name, group


ALL = dict(commands(typer.main.get_command(app)))


def option(command: str, flag: str) -> Any:
    return next((parameter for parameter in ALL[command].params if flag in parameter.opts), None)


def test_commands_that_open_a_kit_take_its_key_in_the_same_words() -> None:
    keys = [option(command, "--key") for command in ("flash", "push", "kit verify")]
    helps = {key.help for key in keys}
    assert len(helps) == 1
    assert "fleet-kit.pub next to the kit" in str(helps)
    assert all(key.default is None and not key.required for key in keys)


@pytest.mark.parametrize(
    "command",
    ["board list", "board show", "doctor", "flash", "keys make", "keys show", "kit verify", "provision", "push"],
)
def test_what_is_printed_can_be_had_as_json(command: str) -> None:
    flag = option(command, "--json")
    assert flag is not None
    assert (flag.is_flag, flag.default, flag.help) == (True, False, "Print JSON.")
