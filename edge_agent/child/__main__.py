"""The training child, `python -m edge_agent.child`: one request on stdin, progress as lines of JSON on stdout.

It sets its resource limits before it imports torch, dies with the agent, and reports its result as exit code: 0 done,
those of `core/errors.py` (3 configuration, 4 data, 5 bytes, 6 model, 7 diverged), 12 out of memory, 28 disk full,
1 anything else.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

from core.errors import ConfigError, DivergedError, EdgestillError, NonFiniteError
from core.processes.fast_exit import leave_quickly
from core.processes.process_limits import die_with_parent
from edge_agent.child.request import DISK_FULL, OUT_OF_MEMORY, Request

__all__ = ["main"]

NO_MEMORY = ("can't allocate memory", "cannot allocate memory", "bad_alloc", "failed to map segment", "out of memory")


def main() -> int:
    """Execute the request on stdin."""
    request = Request.decode(sys.stdin.buffer.read())
    die_with_parent(request.parent)
    os.nice(request.nice)
    if request.memory_mb is not None:
        # Not the address space: libraries and thread stacks reserve far more of it than they use.
        limit = request.memory_mb * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        return _work(request)
    except NonFiniteError:  # inputs were checked before: these are the trained weights
        return _fail("training diverged: weights are NaN or infinite", DivergedError.exit_code)
    except EdgestillError as error:
        return _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        doing = "an offered model" if request.round is None else "training"
        return _fail(f"{doing} needs {error.name}; install edgestill[train]", ConfigError.exit_code)
    except Exception as error:
        return _unexpected(error, request)


def _work(request: Request) -> int:
    with (Path(request.state_dir) / "child.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the child of a killed agent may still be exiting
        _tell("importing")
        if request.graph is None:
            from edge_agent.child.full import run
        else:
            from edge_agent.child.light import run
        metrics = run(request, _tell)
    _tell("done", **metrics, memory_mb=round(_peak_mb(), 1))
    return 0


def _peak_mb() -> float:
    """Peak resident memory of this process; getrusage would include that of its parent at the fork."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _tell(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def _fail(text: str, code: int) -> int:
    _tell("failed", text=text)
    return code


def _unexpected(error: Exception, request: Request) -> int:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or number == errno.ENOMEM or any(t in str(error).lower() for t in NO_MEMORY):
        limit = f"memory_mb = {request.memory_mb}" if request.memory_mb else "no limit is set"
        if "cuda out of memory" in str(error).lower():
            limit = f"of the GPU, with device = {request.compute}"
        return _fail(f"out of memory ({limit}); a smaller batch or prototype needs less", OUT_OF_MEMORY)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return _fail(f"the disk of {request.state_dir} is full; free some space", DISK_FULL)
    traceback.print_exc()
    return _fail(f"{type(error).__name__}: {error}", 1)


if __name__ == "__main__":
    leave_quickly()
    sys.exit(main())
