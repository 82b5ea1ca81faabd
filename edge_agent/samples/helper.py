"""`python -m edge_agent.samples.helper`: a survey for the agent, which imports neither NumPy nor Pillow.

Reads {"spec": {...}, "state_dir": "...", "seconds": 20} from stdin and writes a `Survey` as JSON to stdout. Exit code
and text of an error are those of core/errors.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from core.errors import EdgestillError
from core.processes.pipes import claim_stdout
from edge_agent.samples.read import survey_samples
from edge_agent.samples.spec import Asked
from edge_agent.samples.task_file import read_task

__all__ = ["main"]


def main() -> int:
    """Answer the request on stdin; the exit code."""
    answer = claim_stdout()  # a loader of the user may print
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    state_dir = Path(asked.state_dir)
    try:
        survey, _, _ = survey_samples(
            asked.spec, state_dir, read_task(state_dir), stop_at=time.monotonic() + asked.seconds
        )
    except EdgestillError as error:
        answer.write(str(error).encode())
        answer.flush()
        return error.exit_code
    answer.write(msgspec.json.encode(survey))
    answer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
