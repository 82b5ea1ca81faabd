"""The command line as a person types it: its streams and its exit code, and what it imports."""

import json
import subprocess
import sys

import pytest

from tests.edgestill.cli.typed import edgestill, run

HELPED = ([], ["simulate"], ["data"], ["data", "list"], ["prototype"], ["prototype", "show"])


@pytest.mark.light
def test_help_teaches_without_importing_torch() -> None:
    code = "import sys; from edgestill.cli.main import _run\n"
    code += f"for command in {HELPED}: print('code', _run([*command, '--help'], False), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: edgestill") == done.stdout.count("code 0 False\n") == len(HELPED)


@pytest.mark.light
def test_the_version_is_told_in_both_ways(capsys: pytest.CaptureFixture) -> None:
    done = edgestill("--version")
    assert (done.returncode, done.stdout.startswith("edgestill 0."), done.stderr) == (0, True, "")
    _, out, _ = run(capsys, "version", "--json")
    assert json.loads(out)["numpy"][0].isdigit()


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
def test_wrong_usage_is_one_line(args: list, code: int, words: str, capsys: pytest.CaptureFixture) -> None:
    ended, out, err = run(capsys, *args)
    assert ended == code
    assert words in err
    assert err.count("\n") == 1
    assert out == ""


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
