"""A process that leaves quickly does all that it was to do at its end but search for garbage."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.light

CODE = """
import atexit, gc, sys
from core.processes.fast_exit import leave_quickly

class Loop:
    def __init__(self):
        self.me = self
    def __del__(self):
        print("collected")

atexit.register(print, "registered before")
if "quickly" in sys.argv:
    leave_quickly()
    leave_quickly()
atexit.register(lambda: print("registered after, frozen:", gc.get_freeze_count() > 0))
loop = Loop()
file = open(sys.argv[1], "w")
file.write("written")
"""


def test_files_and_callbacks_are_served_and_garbage_is_left(tmp_path):
    for words, expected in [
        (["quickly"], ["registered after, frozen: False", "registered before"]),
        ([], ["registered after, frozen: False", "registered before", "collected"]),
    ]:
        path = tmp_path / "-".join(["file", *words])
        command = [sys.executable, "-c", CODE, str(path), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout.splitlines() == expected
        assert path.read_text() == "written"
