"""What the way to the broker costs a small board."""

import subprocess
import sys
from pathlib import Path

import pytest

import transport

pytestmark = pytest.mark.light

SCRIPT = """
import resource, sys, time
start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import transport.link
print(time.process_time() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_the_link_is_light_and_brings_no_broker() -> None:
    root = Path(transport.__file__).resolve().parents[1]
    seconds, megabytes, loaded = [], [], set()
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, check=True, text=True)
        figures, names = done.stdout.splitlines()
        seconds.append(float(figures.split()[0]))
        megabytes.append(float(figures.split()[1]))
        loaded |= set(names.split())
    assert "paho" in loaded
    assert loaded.isdisjoint({"amqtt", "torch", "numpy", "rich", "typer"})
    assert min(seconds) < 0.3  # CPU seconds; 0.14 measured
    assert min(megabytes) < 25  # 14 measured
