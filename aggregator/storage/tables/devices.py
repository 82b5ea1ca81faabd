"""Devices: all that ever sent a message, with their counts."""

from __future__ import annotations

from typing import Any

from aggregator.storage.rows import DeviceRow
from aggregator.storage.tables.base import Table

__all__ = ["DeviceTable"]


class DeviceTable(Table):
    """Devices by id."""

    def devices(self) -> list[DeviceRow]:
        """All devices that ever sent a message, by id."""
        return [DeviceRow(**{**row, "revoked": bool(row["revoked"])}) for row in self._rows("devices", "1 ORDER BY id")]

    def note_device(self, device: str, **facts: Any) -> None:
        """Set columns of a device, which is added if it is new."""
        names = list(facts)
        marks = ", ".join("?" * (len(names) + 1))
        changes = ", ".join(f"{n} = excluded.{n}" for n in names)
        self.db.execute(
            f"INSERT INTO devices (id, {', '.join(names)}) VALUES ({marks}) ON CONFLICT DO UPDATE SET {changes}",
            (device, *facts.values()),
        )

    def count(self, device: str, what: str, by: int = 1) -> None:
        """Add to `accepted`, `refused` or `late` of a device."""
        assert what in ("accepted", "refused", "late")
        self.db.execute(
            f"INSERT INTO devices (id, {what}) VALUES (?, ?) ON CONFLICT DO UPDATE SET {what} = {what} + ?",
            (device, by, by),
        )
