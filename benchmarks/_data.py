"""The data folder of the benchmarks: `EDGESTILL_DATA`, or `../shared/data` next to the checkout if it exists."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["use_shared_data"]

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def use_shared_data() -> None:
    """Set `EDGESTILL_DATA` for this process and its children, unless it is set."""
    if SHARED.is_dir():
        os.environ.setdefault("EDGESTILL_DATA", str(SHARED))
