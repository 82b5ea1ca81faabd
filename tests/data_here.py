"""Real datasets, where they are."""

import pytest

from fleet.data.registry import DATASETS

__all__ = ["needs"]


def needs(*names: str) -> None:
    """Skip the test that calls this, unless all these datasets are in the data folder."""
    for name in names:
        if not DATASETS[name].found():
            pytest.skip(f"{name} is not in the data folder; run: edgestill data fetch {name}")
