"""Lines about a round's devices: few, and with the remedy."""

from __future__ import annotations

import logging

import pytest

from aggregator.round_log import log_closed, log_lost
from tests.aggregator.journals import HYPER

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("asked_for", "levels"), [(20, {3: "WARNING", 11: "ERROR"}), (4, {1: "WARNING", 3: "ERROR"}), (1, {1: "ERROR"})]
)
def test_a_tenth_and_a_half_are_told_once_each(
    caplog: pytest.LogCaptureFixture, asked_for: int, levels: dict[int, str]
) -> None:
    found = {}
    for count in range(1, asked_for + 1):
        caplog.clear()
        log_lost(HYPER, 2, {f"d{n}": "why" for n in range(count)}, asked_for)
        if caplog.records:
            (record,) = caplog.records
            found[count] = record.levelname
    assert found == levels


def test_a_closed_round_tells_accuracies_and_who_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "edgestill.aggregator"):
        report = {"devices": {"a": {"screened": ""}, "b": {"screened": "too far"}}}
        log_closed(3, {"cnn:w1": 0.5, "cnn:fp32": 0.75}, report, {"cnn:w1": 0.625})
    assert [record.getMessage() for record in caplog.records] == [
        "round 3 closed: accuracy cnn:w1 0.500 (float weights 0.625), cnn:fp32 0.750",
        "round 3: the update of 'b' was excluded: too far",
    ]
