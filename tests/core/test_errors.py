"""The tree of errors is the one that its docstring draws, exit codes included."""

import re

import pytest

from core import errors
from core.errors import EdgestillError, did_you_mean

pytestmark = pytest.mark.light
LINE = re.compile(r"(?P<indent>[ │├└─]*)(?P<name>[A-Z]\w+Error)\s+(?:exit code )?(?P<code>\d+)?")


def drawn() -> dict[str, tuple[str | None, int]]:
    """Name to its parent and exit code, by the indentation of the drawing; without a number it is the parent's."""
    above: list[tuple[int, str]] = []
    found: dict[str, tuple[str | None, int]] = {}
    for line in (errors.__doc__ or "").splitlines():
        match = LINE.match(line)
        if not match:
            continue
        depth = len(match["indent"])
        above = [(d, name) for d, name in above if d < depth]
        parent = above[-1][1] if above else None
        code = int(match["code"]) if match["code"] else found[str(parent)][1]
        found[match["name"]] = (parent, code)
        above.append((depth, match["name"]))
    return found


def test_the_tree_and_the_exit_codes_are_those_that_are_drawn() -> None:
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EdgestillError)]
    real = {k.__name__: (None if k is EdgestillError else k.__base__.__name__, k.exit_code) for k in classes}
    assert real == drawn()
    assert set(errors.__all__) == {*real, "did_you_mean"}


def test_no_exit_code_is_one_of_the_shells_or_of_usage() -> None:
    codes = {code for _, code in drawn().values()}
    assert 0 not in codes
    assert 2 not in codes  # wrong usage, as click has it
    assert max(codes) < 12  # from there on: out of memory, a full disk, signals


def test_the_nearest_name_is_proposed_and_a_far_one_is_not() -> None:
    assert did_you_mean("fedavgg", ["fedprox", "fedavg"]) == "; did you mean 'fedavg'?"
    assert did_you_mean("zzz", ["fedprox", "fedavg"]) == ""
    assert did_you_mean("x", []) == ""


def test_a_word_of_another_tool_is_translated() -> None:
    assert did_you_mean("learning_rate", ["latent", "lr", "clip"]) == "; did you mean 'lr'?"
    assert did_you_mean("learning-rate", ["lr"]) == "; did you mean 'lr'?"
    assert did_you_mean("learning_rate", ["learning_rates"]) == "; did you mean 'learning_rates'?"
    assert did_you_mean("num_steps", ["local_steps", "steps"]) == "; did you mean 'steps'?"


def test_a_long_word_is_compared_by_its_beginning() -> None:
    assert did_you_mean("a" * 100_000, ["a" * 100]) == f"; did you mean {'a' * 100!r}?"
