"""What a fleet's state folder holds, in bytes."""

from __future__ import annotations

import shutil

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal

__all__ = ["disk_use"]


def disk_use(config: FleetConfig, journal: Journal) -> dict[str, int]:
    """Bytes of models, updates and the journal, and what is free beside them."""
    files = (config.state / f"journal.db{end}" for end in ("", "-wal", "-shm"))
    size = sum(file.stat().st_size for file in files if file.exists())
    free = shutil.disk_usage(config.state).free
    return {**journal.bytes_kept(config.keep_rounds), "journal": size, "free": free}
