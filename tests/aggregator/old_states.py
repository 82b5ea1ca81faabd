"""State folders that older releases have left, kept as they were: what an upgrade in place finds.

`data/state-schema-1.tar.gz`: journal of schema 1, fleet `test-fleet`, prototype cnn:w1, devices pi-0, pi-1 and pi-2 of
`scripted.py`. Round 1 is closed; round 2 is open, pi-0 and pi-1 have answered it, pi-2 has not.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

DEVICES = ["pi-0", "pi-1", "pi-2"]


def unpack_schema_1(folder: Path) -> Path:
    """The state folder, below `folder`."""
    with tarfile.open(Path(__file__).parent / "data" / "state-schema-1.tar.gz") as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    return folder / "state"
