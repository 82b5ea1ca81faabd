"""What operators did, a line each."""

from pathlib import Path

from edgestill.web.audit import AuditLog


def test_entries_are_appended_and_the_newest_come_first(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    assert log.newest() == []
    log.write("127.0.0.1", "revoke", "pi-0", answer="revoked")
    log.write("::1", "login", answer="wrong token\nwith a line", failed=True)
    assert [(e["who"], e["action"], e["on"], e["answer"], e["failed"]) for e in AuditLog(tmp_path).newest()] == [
        ("::1", "login", "", "wrong token\nwith a line", True),
        ("127.0.0.1", "revoke", "pi-0", "revoked", False),
    ]
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    assert len(log.newest(1)) == 1


def test_a_line_that_was_cut_costs_itself_alone(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.write("a", "x", "o" * 10_000)
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"time": 1, "who\xff\n[1]\n{}\n')
    log.write("b", "y")
    assert [(e["who"], len(e["on"])) for e in log.newest()] == [("b", 0), ("a", 500)]
