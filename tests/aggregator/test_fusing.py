"""What follows from the worker's answers; they are kept until it is durable."""

from __future__ import annotations

import pytest

from aggregator.conductor import Conductor
from aggregator.rounds.events import Stop, Stored
from aggregator.rounds.state import Phase
from tests.aggregator.journals import an_update

pytestmark = pytest.mark.light


def test_the_report_of_a_fused_round_is_kept_with_its_models(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = conductor.journal
    journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    report = {"devices": {"b": {"weight": 0.0, "score": None, "screened": "no better than chance"}}, "seconds": {}}
    answer = {"task": "fuse", "round": 2, "models": [], "report": report}
    monkeypatch.setattr(conductor.worker, "take", lambda: answer)
    conductor.fusing.drive()
    assert journal.report(2) == report
    assert journal.completed() == 2
    assert "the update of 'b' was excluded: no better than chance" in caplog.text


def test_capped_devices_are_named_in_one_line_when_the_round_closes(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conductor.journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    fair = {"weight": 0.1, "score": None, "screened": None, "capped": None}
    capped = {**fair, "capped": {"claimed": 2**53, "counted": 270, "labels": None}}
    devices = {"a": fair, **{f"x{n}": capped for n in range(7)}}
    answer = {"task": "fuse", "round": 2, "models": [], "report": {"devices": devices, "seconds": {}}}
    monkeypatch.setattr(conductor.worker, "take", lambda: answer)
    conductor.fusing.drive()
    (line,) = [record.getMessage() for record in caplog.records if "max_examples_ratio" in record.getMessage()]
    assert line.startswith(
        "round 2: capped by [fusion] max_examples_ratio: 'x0' claimed 9,007,199,254,740,992 examples, "
    )
    assert line.endswith("'x4' claimed 9,007,199,254,740,992 examples, counted for 270; and 2 more")


def test_an_answer_of_the_worker_is_kept_until_it_is_durable(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = conductor.journal
    journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    answers = iter([{"task": "fuse", "round": 2, "models": [], "report": {"devices": {}, "seconds": {}}}])
    monkeypatch.setattr(conductor.worker, "take", lambda: next(answers, None))
    with monkeypatch.context() as patch:
        patch.setattr(journal, "add_report", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            conductor.fusing.drive()
    assert (conductor.state.phase, journal.completed()) == (Phase.FUSING, 1)
    conductor.fusing.drive()  # without asking the worker again
    assert (conductor.state.phase, journal.completed()) == (Phase.WAITING, 2)


def test_a_round_in_which_no_update_is_to_blame_pauses_the_fleet_after_three_tries(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductor.journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    asked: list[str] = []
    answers = iter([{"task": "fuse", "error": "out of memory"}, {"task": "examine", "round": 2, "culprits": {}}])
    later = {"task": "fuse", "error": "out of memory"}
    monkeypatch.setattr(conductor.worker, "take", lambda: next(answers, later))
    monkeypatch.setattr(conductor.worker, "ask", lambda request: asked.append(request["task"]))
    monkeypatch.setattr(type(conductor.worker), "busy", False)
    for _ in range(5):
        assert conductor.journal.get("hold", "running") == "running"
        conductor.fusing.drive()
    assert conductor.journal.get("hold") == "paused"
    assert asked[0] == "examine"
    assert asked.count("examine") == 1
    before = len(asked)
    conductor.fusing.engage()
    assert len(asked) == before  # nobody is asked again until the operator says something
    conductor.fusing.operator_said(Stop())
    assert conductor.state.phase is not Phase.FUSING


def test_where_a_user_s_part_failed_is_in_a_file_that_the_line_names(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conductor.journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    where = 'Traceback (most recent call last):\n  File "parts.py", line 3, in cautious\nKeyError: 1\n'
    answer = {"task": "fuse", "error": "mypackage: weigh.cautious failed (KeyError: 1)", "traceback": where}
    monkeypatch.setattr(conductor.worker, "take", lambda: answer)
    monkeypatch.setattr(conductor.worker, "ask", lambda request: None)
    with caplog.at_level("DEBUG"):
        conductor.fusing.drive()
    path = conductor.config.state / "fusion-error.txt"
    assert path.read_text() == where
    assert f"round 2 cannot be fused: {answer['error']} (traceback: {path}); each update is tried alone" in caplog.text
    assert [r.levelname for r in caplog.records if "in cautious" in r.getMessage()] == ["DEBUG"]


def test_an_update_that_cannot_be_fused_is_set_aside_and_its_device_muted(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductor.journal.add_update(an_update("b", 2))
    conductor.feed(Stored("b", 2))
    answer = {"task": "examine", "round": 2, "culprits": {"b": "it has no weights"}}
    monkeypatch.setattr(conductor.worker, "take", lambda: answer)
    conductor.fusing.drive()
    assert list(conductor.journal.excluded(2)) == ["b"]
    (refusal,) = conductor.journal.refusals()
    assert "it has no weights" in refusal.reason
    (muted,) = [row.muted_until for row in conductor.journal.devices() if row.id == "b"]
    assert muted == conductor.now() + conductor.config.limits.mute_s
