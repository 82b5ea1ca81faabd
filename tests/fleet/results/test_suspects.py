"""Who stands out in a round."""

from fleet.results.run_file import RoundResult
from fleet.results.suspects import Suspect, excluded_in_all, suspects


def scored(*scores: float) -> dict[str, dict[str, object]]:
    return {f"sim-{n}": {"weight": 0.1, "score": score, "screened": None} for n, score in enumerate(scores)}


def test_a_score_below_half_of_the_median_stands_out() -> None:
    assert suspects(scored(0.4, 0.4, 0.4, 0.2)) == []
    assert suspects(scored(0.4, 0.4, 0.4, 0.19)) == [Suspect("sim-3", 0.19, "low score")]
    assert suspects(scored(0.4, 0.4, 0.4, 0.19, 0.01)) == [
        Suspect("sim-4", 0.01, "low score"),
        Suspect("sim-3", 0.19, "low score"),
    ]


def test_prototypes_are_judged_apart() -> None:
    devices = scored(0.4, 0.4, 0.4, 0.1, 0.1, 0.1)
    assert [s.device for s in suspects(devices)] == ["sim-3", "sim-4", "sim-5"]
    assert suspects(devices, {f"sim-{n}": "cnn:w1" if n > 2 else "cnn:fp32" for n in range(6)}) == []


def test_two_devices_say_nothing_about_each_other() -> None:
    assert suspects(scored(0.4, 0.001)) == []


def test_who_was_left_out_or_got_no_weight_comes_first() -> None:
    devices = scored(0.4, 0.4, 0.4, 0.01)
    devices["sim-1"] |= {"screened": "not finite"}
    devices["sim-2"] |= {"weight": 0.0}
    assert [(s.device, s.why) for s in suspects(devices)] == [
        ("sim-1", "excluded: not finite"),
        ("sim-2", "no weight"),
        ("sim-3", "low score"),
    ]


def test_where_no_models_are_averaged_nobody_lacks_weight() -> None:
    devices = {f"sim-{n}": {"weight": 0.0} for n in range(3)}
    assert suspects(devices) == []
    assert suspects(devices | {"sim-3": {"weight": 1.0}}, {"sim-3": "cnn:w1"}) == []


def test_without_scores_and_reasons_nobody_stands_out() -> None:
    assert suspects({"sim-0": {"weight": 0.5}, "sim-1": {"weight": 0.5}}) == []
    assert suspects({}) == []


def test_who_claims_a_hundred_times_what_it_counts_for_is_named_and_a_large_device_is_not() -> None:
    devices = scored(0.25, 0.25, 0.25, 0.25)
    devices["sim-1"] |= {"capped": {"claimed": 100, "counted": 30, "labels": None}}
    devices["sim-2"] |= {"capped": {"claimed": 2**53, "counted": 30, "labels": None}}
    (found,) = suspects(devices)
    assert (found.device, found.why) == (
        "sim-2",
        "capped: claimed 9,007,199,254,740,992 examples, counted for 30",
    )


def round_of(**reasons: str | None) -> RoundResult:
    devices = {name: {"weight": 0.1, "screened": reason} for name, reason in reasons.items()}
    return RoundResult(round=1, prototypes={}, seconds=1.0, devices=devices)


def test_excluded_devices_are_named_with_their_rounds_and_the_last_reason() -> None:
    rounds = [round_of(a=None, b="one label", c="far"), round_of(a=None, b="low score", c=None)]
    assert excluded_in_all(rounds) == "b in 2 of 2 rounds (low score), c in 1 of 2 rounds (far)"
    assert excluded_in_all(rounds, most=1) == "b in 2 of 2 rounds (low score), and 1 more, in run.json and the report"
    assert excluded_in_all([round_of(a=None)]) == ""
