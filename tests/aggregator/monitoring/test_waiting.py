"""One line that says why a fleet does not go on."""

from __future__ import annotations

from typing import Any

import pytest

from aggregator.monitoring.waiting import waiting_for

pytestmark = pytest.mark.light
NOW = 1000.0


def device(name: str, status: str = "online", **changes: Any) -> dict[str, Any]:
    facts = {"id": name, "status": status, "seen": NOW - 300, "muted_until": 0.0, "revoked": False, "problem": ""}
    return {**facts, **changes}


def facts(phase: str, **changes: Any) -> dict[str, Any]:
    base = {"running": True, "connected": True, "phase": phase, "hold": "running", "done": "", "min_devices": 3}
    return {**base, "devices": [], "devices_configured": 0, "round": None, **changes}


def open_round(*awaited: str, invited: int = 3, deadline: float = NOW + 600) -> dict[str, Any]:
    return {"number": 4, "awaited": list(awaited), "invited": invited, "answered": 1, "deadline": deadline}


def test_updates_are_waited_for_by_device() -> None:
    devices = [device("a"), device("b", "lost"), device("c", seen=0.0, status="unknown")]
    told = waiting_for(facts("collecting", round=open_round("b", "c"), devices=devices), NOW)
    assert told == (
        "waiting for 2 of 3 devices: b (lost, last heard of 5 min ago), c (unknown, not heard of yet);"
        " deadline in 10 min"
    )


def test_a_deadline_that_is_past_is_told_as_such() -> None:
    told = waiting_for(facts("collecting", round=open_round("x", deadline=NOW - 5)), NOW)
    assert told.endswith("x (unknown, not heard of yet); the deadline was 5 s ago")


def test_a_device_that_is_slowed_down_is_told_as_such_with_its_later_deadline() -> None:
    later = {"deadline": NOW + 1200, "devices": ["slow"]}
    row = {**open_round("slow", "b", deadline=NOW - 5), "later": later}
    told = waiting_for(facts("collecting", round=row, devices=[device("slow", telemetry={"throttled": True})]), NOW)
    assert told.startswith("waiting for 2 of 3 devices: slow (online, throttled, last heard of 5 min ago), b (")
    assert told.endswith("deadline in 20 min")
    told = waiting_for(facts("collecting", round={**row, "awaited": ["b"]}), NOW)
    assert told.endswith("the deadline was 5 s ago")  # it is not b's


def test_a_device_that_is_left_out_is_not_ready() -> None:
    devices = [device("a"), device("slow", telemetry={"throttled": True})]
    known = {"devices": devices, "devices_configured": 2}
    assert "1 online, 3 needed; slow (online, throttled" in waiting_for(
        facts("waiting", **known, throttled="leave-out"), NOW
    )
    assert waiting_for(facts("waiting", **known, throttled="later"), NOW).endswith("2 online, 3 needed")


def test_devices_are_waited_for_before_a_round() -> None:
    devices = [device("a"), device("b", "lost"), device("c", muted_until=NOW + 1), device("d", revoked=True)]
    told = waiting_for(facts("waiting", devices=devices, devices_configured=6), NOW)
    assert told.startswith("waiting for devices: 1 online, 3 needed; b (lost, last heard of 5 min ago), c (muted, ")
    assert "d (revoked, " in told
    assert told.endswith(", 2 never heard of")


def test_a_device_without_samples_is_told_as_such() -> None:
    devices = [device("a"), {**device("b"), "data": {"waiting": "waiting for samples in /p: 0 of 20"}}]
    told = waiting_for(facts("waiting", devices=devices, devices_configured=2), NOW)
    assert told.startswith("waiting for devices: 1 online, 3 needed; b (waiting for samples, last heard of")


def test_only_some_devices_are_named() -> None:
    names = [f"pi-{i:02}" for i in range(12)]
    told = waiting_for(facts("collecting", round=open_round(*names, invited=12)), NOW)
    assert (told.count("pi-"), ", 7 more; deadline" in told) == (5, True)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"running": False}, ""),
        ({"connected": False}, "waiting for the broker"),
        ({"phase": "starting"}, "the first models are being made"),
        ({"phase": "fusing", "round": open_round()}, "fusing 1 updates of round 4"),
        (
            {"phase": "fusing", "hold": "paused", "round": open_round(), "stuck": "a bug"},
            "round 4 cannot be fused: a bug; `edgestill aggregator resume` tries it again,"
            " `edgestill round skip` gives it up",
        ),
        ({"phase": "waiting", "hold": "paused"}, "no further round until `edgestill aggregator resume`"),
        ({"phase": "waiting", "done": "all 3 rounds are done"}, ""),
        ({"phase": "waiting", "hold": "stopped"}, ""),
    ],
)
def test_every_phase_says_what_holds_it(changes: dict[str, Any], told: str) -> None:
    assert waiting_for({**facts("waiting"), **changes}, NOW) == told


def test_an_asynchronous_round_tells_its_buffer_and_who_trains() -> None:
    row = {"number": 4, "phase": "open", "awaited": ["a", "b"], "invited": 5, "answered": 3, "buffer": 5}
    devices = [device("a"), device("b", "lost")]
    told = waiting_for(facts("collecting", round=row, devices=devices), NOW)
    assert told == (
        "3 of 5 updates in the buffer; 2 devices train: a (online, last heard of 5 min ago), b (lost, last heard of 5"
        " min ago)"
    )
    told = waiting_for(facts("collecting", round={**row, "awaited": []}, devices=devices[1:]), NOW)
    assert told == (
        "3 of 5 updates in the buffer, nobody trains; waiting for devices: 0 online, 3 needed; b (lost, last heard of 5"
        " min ago)"
    )
    told = waiting_for(facts("fusing", round={**row, "answered": 5}), NOW)
    assert told == "fusing 5 updates of round 4"
