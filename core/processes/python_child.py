"""Start a Python child process with the packages of its parent, ignoring the working directory.

`python -m` puts the working directory first on the import path, so a file `json.py` or `models.py` there would run in
the child. Python's own switch against that (-P) is newer than 3.10.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["import_path", "module_arguments"]

ROOT = Path(__file__).resolve().parents[2]
#: With -c the first entry of the path is empty: the working directory. Only `sys` is imported before it is removed.
_RUN = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def module_arguments(module: str, *arguments: str) -> tuple[str, ...]:
    """Interpreter arguments that replace `-m module arguments`."""
    return ("-c", _RUN, module, *arguments)


def import_path(env: Mapping[str, str] = os.environ) -> str:
    """PYTHONPATH for a child with the entries of `env` and those of this process.

    Our packages come first, unless they are installed: a site-packages folder ahead of the standard library would
    shadow its modules.
    """
    home = [] if ROOT.name in ("site-packages", "dist-packages") else [str(ROOT)]
    entries = [*home, *env.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    return os.pathsep.join(dict.fromkeys(filter(None, entries)))
