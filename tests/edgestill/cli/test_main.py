"""The command line as a person types it: a subprocess, its streams and its exit code."""

import json
import subprocess
import sys

import pytest

from tests.edgestill.cli.typed import edgestill


@pytest.mark.light
@pytest.mark.parametrize(
    "command", [[], ["simulate"], ["data"], ["data", "list"], ["prototype"], ["prototype", "show"]]
)
def test_help_teaches_without_importing_torch(command: list) -> None:
    done = edgestill(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: edgestill" in done.stdout
    call = f"_run({[*command, '--help']}, False)"
    code = f"import sys; from edgestill.cli.main import _run; {call}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


@pytest.mark.light
def test_the_version_is_told_in_both_ways() -> None:
    assert edgestill("--version").stdout.startswith("edgestill 0.")
    facts = json.loads(edgestill("version", "--json").stdout)
    assert facts["numpy"][0].isdigit()


@pytest.mark.light
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["simulat"], 2, "Did you mean 'simulate'"),
        (["simulate", "--rouns", "3"], 2, "--rounds"),
        (["simulate", "--fraction", "many"], 2, "--fraction"),
        (["prototype", "show", "cnn:w1", "--input", "axb"], 3, "like 3x32x32"),
    ],
)
def test_wrong_usage_is_one_line(args: list, code: int, words: str) -> None:
    done = edgestill(*args)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    done = edgestill("simulate", "--recipe", "x", "--debug")
    assert "Traceback" in done.stderr
    assert done.returncode == 3


def test_a_command_that_the_base_install_lacks_something_for_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from edgestill.cli.main import main; "
        "main(['prototype', 'show', 'mlp:w1'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == (
        "edgestill: this command needs torch, which is not installed; pip install 'edgestill[aggregator]'\n"
    )
