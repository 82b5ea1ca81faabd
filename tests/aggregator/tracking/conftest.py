"""Packages of users that bring trackers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """install(entry points, source of the module `mytracking`): what pip leaves behind, in a folder on sys.path."""

    def make(points: str, source: str = "") -> None:
        facts = tmp_path / "mine-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[edgestill.trackers]\n{points}\n")
        (tmp_path / "mytracking.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)

    return make
