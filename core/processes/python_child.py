"""How a Python process of ours starts another: with the packages that it has itself, and nothing of the working folder.

`python -m` puts the working folder first on the import path, so a file `json.py` or `models.py` that lies there, or
that somebody else has put there, would run in the child. Python's own switch against that (-P) is newer than 3.10.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["import_path", "module_arguments"]

ROOT = Path(__file__).resolve().parents[2]
#: With -c the first entry of the path is empty: the working folder. Nothing but `sys` is imported before it goes.
_RUN = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def module_arguments(module: str, *arguments: str) -> tuple[str, ...]:
    """What to give to the interpreter instead of `-m module arguments`."""
    return ("-c", _RUN, module, *arguments)


def import_path(env: Mapping[str, str] = os.environ) -> str:
    """PYTHONPATH for a child that finds what `env` says, and what this process finds.

    Our packages come first, unless they are installed: before the standard library a folder of installed packages
    would hide modules of it.
    """
    home = [] if ROOT.name in ("site-packages", "dist-packages") else [str(ROOT)]
    entries = [*home, *env.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    return os.pathsep.join(dict.fromkeys(filter(None, entries)))
