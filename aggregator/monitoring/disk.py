"""What a fleet's state folder holds, in bytes."""

from __future__ import annotations

import shutil

from aggregator.config.fleet import FleetConfig
from aggregator.storage.journal import Journal

__all__ = ["disk_use"]


def disk_use(config: FleetConfig, journal: Journal) -> dict[str, int]:
    """Bytes of models, updates and the journal; of their disk, what is free and how large it is."""
    files = (config.state / f"journal.db{end}" for end in ("", "-wal", "-shm"))
    size = sum(file.stat().st_size for file in files if file.exists())
    disk = shutil.disk_usage(config.state)
    return {**journal.bytes_kept(config.keep_rounds), "journal": size, "free": disk.free, "size": disk.total}
