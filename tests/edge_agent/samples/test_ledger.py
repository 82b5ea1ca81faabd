"""The notes of a folder of samples."""

from pathlib import Path

import pytest

from edge_agent.samples.ledger import Ledger, Note
from edge_agent.samples.spec import LEDGER

pytestmark = pytest.mark.light


def test_a_note_holds_while_size_and_time_do(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.put("a", Note(3, 5, "ab"))
    ledger.put("b", Note(3, 5, "cd"))
    ledger.reject("a", "cut short")
    ledger.reject("unknown", "never seen")
    ledger.keep_only({"a", "c"})
    ledger.save()
    again = Ledger(tmp_path)
    assert again.get("a", 3, 5) == Note(3, 5, "ab", "cut short")
    assert again.get("a", 3, 6) is again.get("a", 4, 5) is again.get("b", 3, 5) is again.get("unknown", 0, 0) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"a": [1]}', b"\xff" * 9, b"[" * 10_000])
def test_a_damaged_ledger_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LEDGER).write_bytes(content)
    assert Ledger(tmp_path).get("a", 3, 5) is None


def test_a_disk_that_refuses_costs_only_the_notes(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "absent")
    ledger.put("a", Note(3, 5, "ab"))
    ledger.save()
    assert ledger.get("a", 3, 5) is not None
