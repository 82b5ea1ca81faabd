"""A run of FedGen's tables: when it is scored, what it tells, where its unlabeled images are from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleet.experiments.base import Setting
from fleet.experiments.fedgen.authors import authors_partition
from fleet.experiments.fedgen.runs import follow, honest, reference
from tests.fleet.experiments.fedgen.small import digits, plan


def test_a_run_is_scored_now_and_then_and_in_all_of_its_last_rounds(tmp_path: Path) -> None:
    said: list[str] = []
    setting = Setting(fidelity="reference", seed=1, folder=tmp_path, say=said.append)
    facts = follow(setting, plan=plan(rounds=24), ensemble=True)
    assert facts["round"] == [10, *range(15, 25)]
    assert (len(facts["slices"]), len(facts["whole"]), len(facts["ensemble"])) == (11, 10, 5)
    assert said[-1].startswith("round 24/24, ")
    assert facts["examples"] == [len(part) for part in authors_partition(plan().config, digits())]
    results = {"a": facts}
    assert reference("a").value(results) == pytest.approx(sum(sorted(facts["slices"])[-5:]) / 5)
    assert honest("a").value(results) == pytest.approx(sum(facts["whole"][-10:]) / 10)


def test_another_seed_is_another_run_of_the_same_users(tmp_path: Path) -> None:
    runs = [follow(Setting(fidelity="reference", seed=seed, folder=tmp_path), plan=plan("fedgen")) for seed in (0, 1)]
    assert runs[0]["examples"] == runs[1]["examples"]
    assert runs[0]["whole"] != runs[1]["whole"]


def test_feddf_has_the_images_that_nobody_has(tmp_path: Path) -> None:
    of = plan("feddf")
    facts = follow(Setting(fidelity="reference", seed=0, folder=tmp_path), plan=of)
    assert len(facts["slices"]) == 2
    data, taken = digits(), np.concatenate(authors_partition(of.config, digits()))
    with np.load(tmp_path / "unlabeled.npz") as kept:
        assert len(kept["x"]) == len(data.y_train) - len(taken)
        row = np.setdiff1d(np.arange(len(data.y_train)), taken)[0]
        assert np.allclose(kept["x"][0], data.inputs(data.x_train[row : row + 1])[0])
