"""A sweep's folder with numbers to follow by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fleet.report.made import a_run, written


def swept(folder: Path, *, names: tuple[str, ...] = ("fedavg", "fedrad"), seeds: tuple[int, ...] = (0, 1)) -> Path:
    """Two recipes with two seeds; at each round seed 1 is 0.1 better, and the second recipe another 0.05."""
    runs: list[dict[str, Any]] = []
    for position, recipe in enumerate(names):
        for seed in seeds:
            better = 0.1 * seed + 0.05 * position
            name = f"recipe={recipe},seed={seed}"
            written(folder / "runs" / name, a_run([0.5 + better, 0.6 + better, 0.7 + better], recipe=recipe, seed=seed))
            runs.append({"run": name, "point": {"recipe": recipe, "seed": seed}})
    (folder / "sweep.json").write_text(json.dumps({"keys": ["recipe", "seed"], "runs": runs, "missing": ["late"]}))
    return folder
