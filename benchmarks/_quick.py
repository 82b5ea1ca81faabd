"""The flag `--quick`, which every benchmark has: tests run each script with it (tests/benchmarks/test_quick.py)."""

from __future__ import annotations

import argparse

__all__ = ["add_quick"]


def add_quick(parser: argparse.ArgumentParser) -> None:
    """One tiny case from start to end, in seconds, without peers."""
    parser.add_argument("--quick", action="store_true", help="one tiny case: that it runs; its figures mean nothing")
