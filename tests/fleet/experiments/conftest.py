"""The toy experiment, found by this process and by its children."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fleet.experiments.toys import install


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its name."""
    folder = tmp_path / "installed"
    folder.mkdir()
    install(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    sys.modules.pop("toyexperiment", None)
    return "toy"
