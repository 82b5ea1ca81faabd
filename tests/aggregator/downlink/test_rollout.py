"""Who is offered another version when: canaries, a pause, a stop."""

import msgspec
import pytest

from aggregator.downlink.rollout import Progress, Rollout, next_look, offered, stage_of, why_stop
from wire.messages import UpgradePhase

pytestmark = pytest.mark.light
ALL = ("a", "b", "c", "d")


def rollout(canary: int = 0, wait_s: float = 0.0, stopped: str = "") -> Rollout:
    facts = {"bundle": "b" * 64, "size": 9, "number": 7, "version": "0.3.0"}
    return Rollout(**facts, devices=ALL, canary=canary, wait_s=wait_s, stopped=stopped)  # type: ignore[arg-type]


def heard(number: int = 7, **phases: UpgradePhase) -> dict[str, Progress]:
    return {d: Progress(number=number, phase=p, version="", reason="why", time=100.0) for d, p in phases.items()}


def test_without_canaries_all_are_offered_it_at_once_and_one_that_goes_back_stops_nobody() -> None:
    assert offered(rollout(), {}, 0.0) == ALL
    assert why_stop(rollout(), heard(a="back"), {}) == ""


def test_the_others_wait_for_all_canaries_and_then_for_the_time() -> None:
    plan = rollout(canary=2, wait_s=60.0)
    assert offered(plan, {}, 1000.0) == ("a", "b")
    assert offered(plan, heard(a="committed", b="trial"), 1000.0) == ("a", "b")
    both = heard(a="committed", b="committed")
    assert offered(plan, both, 159.0) == ("a", "b")
    assert next_look(plan, both) == 160.0
    assert offered(plan, both, 160.0) == ALL


def test_reports_of_an_earlier_upgrade_count_for_nothing() -> None:
    plan = rollout(canary=1)
    assert offered(plan, heard(6, a="committed"), 1000.0) == ("a",)
    assert why_stop(plan, heard(6, a="back"), {}) == ""
    assert stage_of(plan, "a", heard(6, a="committed"), 0.0) == "offered"


@pytest.mark.parametrize(
    ("phases", "stops"),
    [
        ({"a": "back"}, "a: went back: why"),
        ({"a": "refused"}, "a: refused: why"),
        ({"a": "committed", "c": "back"}, "c: went back: why"),
        ({"a": "committed", "c": "refused"}, ""),  # of one kind of board; the canaries have shown that it works
        ({"a": "trial"}, ""),
    ],
)
def test_with_canaries_one_that_goes_back_stops_it(phases: dict[str, UpgradePhase], stops: str) -> None:
    assert why_stop(rollout(canary=1), heard(**phases), {}) == stops


def test_a_stop_takes_it_back_from_those_that_have_not_begun() -> None:
    plan, told = rollout(stopped="a: went back"), heard(a="back", b="installing", c="fetching")
    assert offered(plan, told, 0.0) == ("a", "b")
    assert [stage_of(plan, d, told, 0.0) for d in ALL] == ["back", "installing", "withdrawn", "withdrawn"]
    assert next_look(plan, told) == float("inf")


def test_the_stage_of_a_device_in_a_word() -> None:
    plan, told = rollout(canary=3), heard(a="committed", b="fetching")
    assert [stage_of(plan, d, told, 0.0) for d in ALL] == ["committed", "fetching", "offered", "waiting"]


def test_it_survives_the_journal() -> None:
    plan = rollout(canary=2, wait_s=3.5, stopped="x")
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Rollout) == plan


def test_a_canary_that_takes_no_upgrade_stops_it() -> None:
    assert why_stop(rollout(canary=1), {}, {"a": "not supported here"}) == "a: refused: not supported here"
    assert why_stop(rollout(canary=1), {}, {"b": "not supported here"}) == ""  # it is no canary
    assert why_stop(rollout(), {}, {"a": "not supported here"}) == ""
