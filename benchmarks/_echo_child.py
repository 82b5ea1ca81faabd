"""The training child, with an echo in place of training; started by `_echo_agent.py`."""

from __future__ import annotations

import sys

import _echo

from edge_agent.child import __main__ as child

if __name__ == "__main__":
    sys.modules["edge_agent.child.full"] = _echo  # the child imports its work after setting its limits
    sys.exit(child.main())
