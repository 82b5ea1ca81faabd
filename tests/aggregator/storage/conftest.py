"""An empty journal."""

from pathlib import Path

import pytest

from aggregator.storage.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")
