"""Explicit epochs or steps that are far fewer than the defaults would give."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from edge_agent.training.params import local_training
from fleet.simulation.warnings.few_steps import few_steps_text

pytestmark = pytest.mark.light


def told(*examples: int, **given: Any) -> str:
    return few_steps_text(asdict(local_training(**given)), [{"examples": n} for n in examples])


def test_epochs_of_few_samples_are_told_with_the_steps_and_the_remedy() -> None:
    assert told(64, 120, 200, epochs=2) == (
        "--local-epochs 2 is 8 local steps a round for the median device (64 to 200 samples each), the default would "
        "be 50: it learns more slowly; leave --local-epochs out, or give --local-steps 50"
    )


def test_few_steps_are_told_too() -> None:
    assert told(64, steps=1).startswith("--local-steps 1 is 1 local step a round, the default would be 50")
    assert "--local-steps 24 is 24 local steps" in told(64, steps=24)


def test_nothing_is_said_of_the_default_or_of_half_of_it_and_more() -> None:
    assert told(1) == ""
    assert told(30_000) == ""
    assert told(64, steps=25) == ""
    assert told(64, epochs=13) == ""
    assert told(3200, epochs=1) == "", "100 of 100"


def test_the_default_is_that_of_the_given_batch_size() -> None:
    assert told(320, epochs=2, batch_size=8) == "", "80 of 80"
    assert "the default would be 80" in told(320, steps=10, batch_size=8)
