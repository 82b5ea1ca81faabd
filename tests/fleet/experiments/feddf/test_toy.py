"""The toy of FedDF's Figure 1: its data, its pictures, and the page that is committed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core import settings
from fleet.experiments.base import Setting
from fleet.experiments.feddf import toy as feddf_toy
from fleet.experiments.feddf.toy import EXPERIMENT, PANELS, clusters, measure

ROOT = Path(__file__).resolve().parents[4]


def test_neighbouring_clusters_have_different_classes() -> None:
    x, y = clusters(900, torch.Generator().manual_seed(0))
    cells = (x / 1.8).round().clamp(-1, 1).long()
    pure = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)]
    classes = {at: y[(cells == torch.tensor(at)).all(1)].mode().values.item() for at in pure}
    assert all(classes[row, column] != classes[row + 1, column] for row in (-1, 0) for column in (-1, 0, 1))
    assert all(classes[row, column] != classes[row, column + 1] for row in (-1, 0, 1) for column in (-1, 0))
    assert torch.bincount(y).min() > 200


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Setting:
    monkeypatch.setattr(feddf_toy, "LOCAL", replace(feddf_toy.LOCAL, steps=40))
    monkeypatch.setattr(feddf_toy, "STUDENT", settings.replace(feddf_toy.STUDENT, steps=40))
    return Setting(fidelity="paper", seed=0, folder=tmp_path)


def test_a_run_measures_five_models_and_draws_them(short: Setting) -> None:
    facts = measure(short)
    assert json.loads(json.dumps(facts)) == facts, "plain JSON values"
    assert facts == measure(short), "by the seed alone"
    assert len({facts[name] for name in PANELS}) == 5
    assert all(20 < facts[name] <= 100 for name in PANELS)
    assert all(len(picture) == 90 and {len(row) for row in picture} == {90} for picture in facts["pictures"].values())
    assert EXPERIMENT.draw is not None
    figure = EXPERIMENT.draw({("paper", 3): {"toy": facts}})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[2] == f"average  {facts['average']:.1f} %"
    assert len(titles) == 5


def test_the_committed_page_has_feddf_above_the_average() -> None:
    folder = ROOT / "docs" / "results"
    cells = {cell["name"]: cell for cell in json.loads((folder / "feddf-toy.json").read_text())["cells"]}
    assert cells["FedDF"]["met"]
    assert cells["FedDF"]["ours"] > cells["average"]["ours"] + 5
    assert cells["ensemble"]["met"]
    assert f"{cells['FedDF']['ours']:.2f}" in (folder / "feddf-toy.md").read_text()
    assert (folder / "feddf-toy.png").read_bytes().startswith(b"\x89PNG")
