"""Cards of tests live in memory where there is room: every file is synced, which a busy disk takes long for."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = "/dev/shm"
ROOM = 1 << 30


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    with tempfile.TemporaryDirectory(dir=MEMORY if roomy else None) as folder:
        yield Path(folder)
