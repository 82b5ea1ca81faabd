"""The device's own samples: training and held-out part, and label counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from core.errors import DataError
from core.seeds import derive_seed
from models.samples import Samples, count_labels, load_labels

__all__ = ["split"]


def split(samples: Samples, fraction: float) -> tuple[Samples, Samples | None]:
    """Training and held-out samples: the same ones in every round; the stored order is kept."""
    held = round(fraction * len(samples))
    if not held:
        return samples, None
    if held == len(samples):
        raise DataError(f"{len(samples)} samples are too few to hold {fraction:g} of them out")
    order = np.random.default_rng(derive_seed(0, "validation", len(samples))).permutation(len(samples))
    train, test = np.sort(order[held:]), np.sort(order[:held])
    return Samples(samples.x[train], samples.y[train]), Samples(samples.x[test], samples.y[test])


def main(path: str) -> int:
    """Print the label counts as JSON, or an error: run as a process by the agent, which does not load NumPy."""
    try:
        sys.stdout.write(json.dumps(count_labels(load_labels(Path(path)))))
    except DataError as error:
        sys.stdout.write(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
