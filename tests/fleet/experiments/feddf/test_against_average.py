"""Rounds to FedAvg's accuracy, worked by hand."""

from __future__ import annotations

from fleet.experiments.feddf.against_average import rounds_to_average

RESULTS = {
    "average": {"accuracy": {"p": [10.0, 40.0, 30.0, 50.0, 45.0]}},  # ends with (30 + 50 + 45) / 3 = 41.7
    "distilled": {"accuracy": {"p": [30.0, 46.0, 51.0, 60.0, 44.0]}},  # 42.3 after round 3
}


def test_feddf_comes_to_the_accuracy_of_fedavg_two_rounds_earlier() -> None:
    average, distilled = rounds_to_average("toy", "average", "distilled", "p")
    assert (average.name, distilled.name) == (
        "toy: rounds of FedAvg to FedAvg's accuracy",
        "toy: rounds of FedDF to FedAvg's accuracy",
    )
    assert (average.ours.value(RESULTS), distilled.ours.value(RESULTS)) == (5, 3)
