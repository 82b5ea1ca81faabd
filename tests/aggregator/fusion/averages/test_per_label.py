"""Rows of predictors by label counts, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aggregator.fusion.averages.per_label import by_label
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Group, Memory, Received, Server, View
from aggregator.recipes.catalogue import find_recipe
from models.spec import PrototypeSpec, parse_prototype

SPEC = PrototypeSpec(*parse_prototype("mlp:fp32"), (2,), 3, 1)


def update(device: str, value: float, counts: tuple[int, ...]) -> Received:
    state = {
        "extractor.w": torch.full((2,), value),
        "predictor.weight": torch.full((3, 1), value),
        "predictor.bias": torch.full((3,), 10 * value),
    }
    return Received(device=device, num_examples=sum(counts), state=lambda: state, label_counts=counts)


#: Label 0: 3 and 1; label 1: only the second's; label 2: nobody's.
UPDATES = [update("a", 1.0, (3, 0, 0)), update("b", 2.0, (1, 5, 0))]
VIEW = View(
    spec=SPEC,
    round_number=1,
    previous=UPDATES[0].state(),
    updates=UPDATES,
    memory=Memory(),
    options={},
    server=Server(),
)


def test_who_has_a_label_has_a_say_in_its_row() -> None:
    state = by_label(VIEW, [3.0, 6.0])
    # (3 + 1 * 2) / 4; 2; by examples (3 + 6 * 2) / 9
    assert state["predictor.weight"].flatten().tolist() == pytest.approx([1.25, 2.0, 15 / 9])
    assert state["predictor.bias"].tolist() == pytest.approx([12.5, 20.0, 150 / 9])
    assert state["extractor.w"].tolist() == pytest.approx([15 / 9, 15 / 9])


def test_a_device_of_weight_0_is_not_read_and_one_without_counts_has_all_labels() -> None:
    broken = Received(device="c", num_examples=1, state=dict, label_counts=(9, 9, 9))
    quiet = replace(UPDATES[1], label_counts=())
    state = by_label(replace(VIEW, updates=[UPDATES[0], broken, quiet]), [3.0, 0.0, 6.0])
    # the second's 6 examples are spread: 2 of each label; label 0: (3 * 1 + 2 * 2) / 5
    assert state["predictor.bias"].tolist() == pytest.approx([14.0, 20.0, 20.0])


def test_where_nobody_is_trusted_the_model_stays() -> None:
    assert torch.equal(by_label(VIEW, [0.0, 0.0])["predictor.bias"], VIEW.previous["predictor.bias"])


def test_a_recipe_may_name_it_and_predictors_that_come_alone_are_averaged_so() -> None:
    def alone(sent: Received) -> Received:
        state = {name: w for name, w in sent.state().items() if name.startswith("predictor.")}
        return replace(sent, state=lambda: state, predictor_only=True)

    group = Group(spec=SPEC, previous=VIEW.previous, updates=[alone(sent) for sent in UPDATES])
    fused = fuse_round(find_recipe("fedavg", {"average": "by-label"}), [group], Server(), 1, Memory())
    assert fused.states["mlp:fp32"]["predictor.bias"].tolist() == pytest.approx([12.5, 20.0, 150 / 9])
    assert torch.equal(fused.states["mlp:fp32"]["extractor.w"], VIEW.previous["extractor.w"])
