"""The flag `--quick` of all benchmarks: tests run each script with it (tests/benchmarks/test_quick.py)."""

from __future__ import annotations

import argparse

__all__ = ["add_quick"]


def add_quick(parser: argparse.ArgumentParser) -> None:
    """Add the flag: one tiny case from start to end, in seconds, without peers."""
    parser.add_argument(
        "--quick", action="store_true", help="smoke test with one tiny case; the figures are meaningless"
    )
