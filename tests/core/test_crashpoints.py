"""A process dies where it is told to, and nowhere else."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.light
CODE = "from core.crashpoints import reach\nfor i in range(3):\n    reach('a'); print(i, flush=True)"


@pytest.mark.parametrize(("at", "printed"), [("a", ""), ("a:2", "0\n"), ("b", "0\n1\n2\n"), (None, "0\n1\n2\n")])
def test_the_process_is_killed_at_the_named_point(at: str | None, printed: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "EDGESTILL_CRASH_AT"}
    if at:
        environment["EDGESTILL_CRASH_AT"] = at
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == printed
    assert done.returncode == (0 if printed.endswith("2\n") else -signal.SIGKILL)
