"""The toy of FedGen's figures: its data, what a run measures, its pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core import settings
from fleet.experiments.base import Setting
from fleet.experiments.fedgen import toy as fedgen_toy
from fleet.experiments.fedgen.toy import EXPERIMENT, Plane, blobs, measure


def test_classes_lie_in_four_corners() -> None:
    y = torch.arange(4).repeat(200)
    x = blobs(y, torch.Generator().manual_seed(0))
    corners = torch.stack([x[y == c].mean(0).sign() for c in range(4)]).tolist()
    assert corners == [[1, 1], [-1, 1], [-1, -1], [1, -1]]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Setting:
    monkeypatch.setattr(fedgen_toy, "LOCAL", replace(fedgen_toy.LOCAL, steps=30))
    monkeypatch.setattr(fedgen_toy, "HOW", settings.replace(fedgen_toy.HOW, lr=5e-3))
    monkeypatch.setattr(fedgen_toy, "STAGES", (0, 50, 60, 70))
    return Setting(fidelity="paper", seed=0, folder=tmp_path)


def test_users_learn_what_they_lack_from_predictors_of_others(short: Setting) -> None:
    facts = measure(short)
    assert facts["local"] < 60  # two classes of four, and little more
    assert facts["taught"] > facts["local"] + 10
    assert facts["right at 0"] < 50 < facts["right at 70"]
    assert [len(points) for points in facts["samples"].values()] == [160] * 4
    assert {len(row) for rows in facts["pictures"].values() for row in rows} == {80}
    assert EXPERIMENT.draw is not None
    titles = [axes.get_title() for axes in EXPERIMENT.draw({("paper", 0): {"toy": facts}}).axes if axes.get_visible()]
    assert titles[0].startswith("first user alone")
    assert titles[-1].startswith("70 steps: ")


def test_a_model_of_the_plane_is_its_predictor() -> None:
    model = Plane()
    assert set(model.state()) == {"predictor.weight", "predictor.bias"}
    assert model(torch.ones(2, 2)).shape == (2, 4)
