"""A warning where explicit epochs or steps leave devices with far fewer local steps than the defaults would.

Two epochs of 60 samples are four mini-batches of 32; by default they are extended to at least 50
(`core/local_defaults.py`). Numbers are those of the device with the median number of steps. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_low
from typing import Any

from core.local_defaults import with_defaults
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import num_steps

__all__ = ["few_steps_text"]

FEW = 0.5  # of the steps that the defaults would give


def few_steps_text(training: Mapping[str, Any], fleet: Sequence[Mapping[str, Any]]) -> str:
    """In one line, with the remedy; nothing where the steps are enough. Both arguments are those of `run.json`."""
    used, usual = LocalTraining(**training), with_defaults()
    amount = {name: usual[name] for name in ("epochs", "steps", "least_steps", "most_steps")}
    examples = [int(device["examples"]) for device in fleet]
    steps, default = (_median_steps(examples, each) for each in (used, replace(used, **amount)))
    if steps >= FEW * default:
        return ""
    given = f"--local-epochs {used.epochs}" if used.steps is None else f"--local-steps {used.steps}"
    count = f"{steps} local step{'s' * (steps != 1)} a round"
    middle = (
        f" for the median device ({min(examples):,} to {max(examples):,} samples each)" if used.steps is None else ""
    )
    advice = f"leave {given.split()[0]} out, or give --local-steps {default}"
    return f"{given} is {count}{middle}, the default would be {default}: it learns more slowly; {advice}"


def _median_steps(examples: Sequence[int], training: LocalTraining) -> int:
    return median_low([num_steps(max(math.ceil(n / training.batch_size), 1), training) for n in examples])
