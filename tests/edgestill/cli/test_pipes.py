"""A reader of our output that has gone is no error."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.light
@pytest.mark.parametrize("args", ["board list --json", "recipe list", "version", "prototype list --json", "--help"])
def test_a_command_whose_reader_goes_ends_without_a_word(args: str) -> None:
    command = [sys.executable, "-m", "edgestill", *args.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(120) in (0, 1)  # by who notices first: Typer says 1
    assert said == ""


def test_the_worker_says_nothing_when_its_service_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "aggregator.worker"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # as the end of the service closes it
    setup = '{"state": ".", "key": "none", "validation": null, "fusion": {}, "input_shape": [1, 4, 4], "classes": 3'
    process.stdin.write(f'{setup}, "prototypes": ["none:fp32"], "latent": 8, "seed": 0, "fleet": "f"}}\n')
    process.stdin.write('{"task": "start", "prototypes": []}\n')
    process.stdin.close()
    said = process.stderr.read()
    assert (process.wait(120), said) == (0, "")
