"""`es.sweep`: runs in parallel, as by `edgestill sweep`."""

from pathlib import Path
from typing import Any

import pytest

import edgestill as es
from core.errors import ConfigError

BASE: dict[str, Any] = {"devices": 2, "prototypes": ["mlp:fp32"], "rounds": 1, "source": "none"}


@pytest.mark.slow
def test_means_over_seeds_and_every_run(tmp_path: Path) -> None:
    result = es.sweep(
        {"fusion.max_examples_ratio": [0, 3.0], "seed": [0, 1]}, base=BASE, out=tmp_path / "s", quiet=True
    )
    assert [(row["fusion.max_examples_ratio"], row["runs"]) for row in result.rows] == [(0, 2), (3.0, 2)]
    accuracies = [run.rows[0]["accuracy"] for run in result.runs]
    assert result.rows[0]["accuracy"] == pytest.approx((accuracies[0] + accuracies[2]) / 2)
    assert (tmp_path / "s" / "sweep.csv").is_file()
    one = es.simulate(**BASE, engine="inline", fusion={"max_examples_ratio": 0}, quiet=True)
    assert result.runs[0].model().digest == one.model().digest
    again = es.sweep(
        {"fusion": {"max_examples_ratio": [0, 3.0]}, "seed": [0, 1]}, base=BASE, out=tmp_path / "s", quiet=True
    )
    assert again.rows == result.rows


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ({"seeds": [0]}, "unknown argument 'seeds'; did you mean 'seed'"),
        ({"seed": 3}, r"sweep\(\): grid: 'seed' is 3, expected a list"),
        ({"rounds": [1, 2]}, "'rounds' is in base and in grid"),
        ({"seed": [0, 0]}, "a value is given twice"),
        ({"recipe": ["fedagv"]}, "unknown recipe 'fedagv'"),
    ],
)
def test_mistakes_are_one_line_before_anything_runs(grid: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        es.sweep(grid, base=BASE, out=tmp_path / "s", quiet=True)
    assert not (tmp_path / "s").exists()
