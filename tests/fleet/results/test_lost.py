"""What a run has lost, in words, and losses beyond all bounds."""

from math import inf, log, nan

import pytest

from fleet.results.lost import attackers_share, exploded, guessing, lost_in_all
from fleet.results.run_file import PrototypeResult, RoundResult, Run


def result(number: int = 1, lost: dict[str, str] | None = None, **losses: float | None) -> RoundResult:
    prototypes = {
        name: PrototypeResult(accuracy=0.5, loss=1.0, train_loss=loss, devices=3, bytes_up=1, bytes_down=1)
        for name, loss in (losses or {"mlp": 1.0}).items()
    }
    return RoundResult(round=number, prototypes=prototypes, seconds=1.0, lost=lost or {})


def test_nothing_lost_is_nothing_said() -> None:
    assert lost_in_all([]) == lost_in_all([result(1), result(2)]) == ""


def test_one_round_is_told_with_its_devices_and_how_many_were_asked() -> None:
    text = lost_in_all([result(1), result(2, {"b": "diverged"})])
    assert text == "round 2: 1 of 4 devices lost: b: diverged"


def test_over_several_rounds_updates_are_counted_and_devices_named_once() -> None:
    rounds = [result(1, {"a": "diverged", "b": "diverged"}), result(2), result(3, {"a": "out of memory"})]
    assert lost_in_all(rounds) == (
        "3 updates lost, of a, b; the last in round 3: 1 of 4 devices lost: a: out of memory"
    )


@pytest.mark.parametrize("classes", [1, 2, 10])
def test_a_loss_of_more_than_ten_times_that_of_guessing_is_named(classes: int) -> None:
    bound = 10 * log(max(classes, 2))
    found = exploded(result(learns=1.0, at=bound, beyond=1.01 * bound, infinite=inf, unknown=None, odd=nan), classes)
    assert found == {"beyond": 1.01 * bound, "infinite": inf}


def of_accuracy(accuracy: float, device_accuracy: float | None = None) -> RoundResult:
    fused = PrototypeResult(
        accuracy=accuracy,
        loss=1.0,
        train_loss=1.0,
        devices=1,
        bytes_up=1,
        bytes_down=1,
        device_accuracy=device_accuracy,
    )
    return RoundResult(round=1, prototypes={"mlp": fused}, seconds=1.0)


def test_a_model_that_only_guesses_is_named_by_the_share_of_the_most_frequent_label() -> None:
    even, uneven = [[1] * 10, [3] * 10], [[9, 1], [9, 1]]
    assert guessing(of_accuracy(0.19), even) == {"mlp": 0.19}
    assert guessing(of_accuracy(0.21), even) == guessing(of_accuracy(nan), even) == {}
    assert guessing(of_accuracy(0.95), uneven) == {"mlp": 0.95}
    assert guessing(of_accuracy(0.0), []) == guessing(of_accuracy(0.0), [[0, 0], []]) == {}


def test_where_devices_keep_models_of_their_own_theirs_count() -> None:
    assert guessing(of_accuracy(0.1, device_accuracy=0.8), [[1] * 10]) == {}


def test_attackers_have_the_share_of_their_worst_round() -> None:
    fleet = [{"device": "a", "attack": "faulty"}, {"device": "b"}]
    rounds = [
        RoundResult(
            round=n, prototypes=result().prototypes, seconds=1.0, devices={"a": {"weight": w}, "b": {"weight": 1 - w}}
        )
        for n, w in enumerate((0.1, 0.4, 0.0), 1)
    ]
    assert attackers_share(Run(config={}, fleet=fleet, rounds=rounds)) == 0.4
    assert attackers_share(Run(config={}, fleet=fleet[1:], rounds=rounds)) == 0.0
