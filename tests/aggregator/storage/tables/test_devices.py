"""Devices and their counts."""

from __future__ import annotations

import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.rows import DeviceRow

pytestmark = pytest.mark.light


def test_devices_are_noted_column_by_column(journal: Journal) -> None:
    journal.note_device("a", status="online", session=3, seen=5.0)
    journal.note_device("a", prototype="cnn:w1", revoked=1)
    journal.count("a", "refused", 4)
    assert journal.devices() == [
        DeviceRow(id="a", status="online", session=3, seen=5.0, prototype="cnn:w1", revoked=True, refused=4)
    ]


def test_devices_are_listed_by_id_whatever_was_heard_first(journal: Journal) -> None:
    journal.count("pi-2", "late")
    journal.note_device("pi-1", seen=1.0)
    journal.note_device("pi-2", seen=2.0)
    assert [(row.id, row.seen, row.late, row.revoked) for row in journal.devices()] == [
        ("pi-1", 1.0, 0, False),
        ("pi-2", 2.0, 1, False),
    ]


def test_counts_add_up_each_in_its_own_column(journal: Journal) -> None:
    for what, by in (("accepted", 1), ("late", 2), ("accepted", 3), ("refused", 5)):
        journal.count("a", what, by)
    assert [(row.accepted, row.late, row.refused) for row in journal.devices()] == [(4, 2, 5)]
    with pytest.raises(AssertionError):
        journal.count("a", "seen")
