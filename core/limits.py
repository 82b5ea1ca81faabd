"""Ranges of the numbers that users set by flag or config file: larger values are mistakes.

A device may still have too little memory for an allowed value. Values outside these ranges could not work anywhere:
they would overflow, fork a million processes, or allocate a layer of terabytes before anything was checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import ConfigError

__all__ = [
    "ALPHA",
    "BATCH",
    "CLIP",
    "DEVICES",
    "EPOCHS",
    "LATENT",
    "LR",
    "MEGABYTES",
    "PROCESSES",
    "ROUNDS",
    "SAMPLES",
    "SECONDS",
    "SEED",
    "STEPS",
    "WEIGHT",
    "WIDTH",
    "WORKERS",
    "Range",
]


@dataclass(frozen=True, slots=True)
class Range:
    """From `least` to `most`, both included."""

    least: float
    most: float

    def check(self, value: float | None, what: str) -> None:
        """Refuse values outside the range, and NaN; None means not set."""
        if value is None or self.least <= value <= self.most:
            return
        advice = f"at most {self.most:,.12g}" if value > self.most else f"at least {self.least:,.12g}"
        raise ConfigError(f"{what} {_short(value)}; give {advice}")


DEVICES = Range(1, 100_000)
ROUNDS = Range(1, 1_000_000)
LATENT = Range(1, 16_384)
WIDTH = Range(1, 65_536)  # of a layer of the generator
BATCH = Range(1, 1_000_000)
EPOCHS = Range(1, 100_000)
STEPS = Range(1, 100_000_000)
SAMPLES = Range(1, 1_000_000_000)
LR = Range(1e-30, 1000)
CLIP = Range(1e-6, 1e6)  # of the norm of a gradient; 0, if allowed, means no limit
ALPHA = Range(1e-6, 1e9)  # of a Dirichlet draw
WEIGHT = Range(0, 1e6)  # of a term of a loss, a temperature, a distance
SEED = Range(-(2**53), 2**53)
SECONDS = Range(0, 1e9)  # thirty years
PROCESSES = Range(1, 256)
WORKERS = Range(0, 1024)  # 0: one per core
MEGABYTES = Range(1, 16 * 2**20)  # of memory or of a disk: 16 TB


def _short(value: float) -> str:
    try:
        return f"{value:.12g}"
    except OverflowError:  # an integer beyond the range of float
        return "of more than 300 digits"
