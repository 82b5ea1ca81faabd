"""Screens, worked by hand."""

from dataclasses import replace

import pytest
import torch

from aggregator.fusion.screens.outliers import accuracies, drop_worst, finite, laggards, worst
from aggregator.fusion.types import Server
from core.errors import ConfigError
from models.build import build
from models.spec import PrototypeSpec
from quant.pack import pack, unpack
from quant.precision import parse_precision
from tests.aggregator.fusion.views import points, view_of


def dropped(accuracy: list[float], classes: int = 10) -> list[int]:
    return [k for k, why in enumerate(worst(accuracy, classes)) if why is not None]


def test_what_is_not_above_chance_is_dropped() -> None:
    assert dropped([0.5, 0.119, 0.12, 0.1]) == [1, 3]
    assert worst([0.5, 0.1], 10)[1] == "accuracy 0.100 is below 1.2 times chance"


def test_outliers_are_dropped_only_where_all_are_above_chance() -> None:
    # without the maximum: 0.8 x 9 and 0.4: mean 0.76, deviation 0.12, cut 0.58
    assert dropped([0.9] + [0.8] * 9 + [0.4]) == [10]
    assert dropped([0.9] + [0.8] * 9 + [0.4, 0.1]) == [11]  # the first rule found one: the second is silent


def test_an_update_at_the_cut_stays() -> None:
    # without the maximum: 0.6, 0.4: mean 0.5, deviation 0.1, cut 0.35
    assert dropped([0.9, 0.6, 0.4]) == []
    # 0.8, 0.8, 0.2: mean 0.6, deviation 0.2828, cut 0.1757
    assert dropped([0.8, 0.8, 0.8, 0.2], classes=100) == []


@pytest.mark.parametrize(
    "accuracy", [[0.9], [0.9, 0.2], [0.3] * 7, [0.1] * 5, [0.0], [0.0, 0.0], [0.7, 0.7, 0.7000001]]
)
def test_nobody_is_dropped_where_nobody_stands_out(accuracy: list[float]) -> None:
    assert dropped(accuracy) == []


def test_laggards_are_those_below_a_share_of_the_best() -> None:
    assert laggards([0.8, 0.33, 0.31, 0.1], 0.4)[1:3] == [None, "accuracy 0.310 is below 0.4 of the best"]
    assert laggards([0.1, 0.1, 0.05], 0.4) == [None, None, None], "nobody has learned yet: chance does not count"
    assert laggards([0.0, 0.0], 0.4) == [None, None]


def test_the_option_of_laggards_reaches_the_screen() -> None:
    spec = PrototypeSpec("mlp", parse_precision("fp32"), (4,), 3)
    states = [build(spec, generator=torch.Generator().manual_seed(seed)).state_dict() for seed in range(3)]
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    best = build(spec, generator=torch.Generator().manual_seed(1)).eval()(x).argmax(1)
    view = view_of(states, spec=spec, server=Server(validation=(x, best)), drop_below=0.99)
    assert [why is None for why in drop_worst(view)] == [False, True, False]
    assert drop_worst(replace(view, options={"drop_below": 0.01})) == [None, None, None]


def test_without_labelled_samples_it_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"drop-worst.*validation set"):
        drop_worst(view_of(points([1.0])))


@pytest.mark.parametrize("precision", ["fp32", "w1"])
def test_accuracy_is_that_of_the_weights_that_were_received(precision: str) -> None:
    spec = PrototypeSpec("mlp", parse_precision(precision), (4,), 2)
    model = build(spec, generator=torch.Generator().manual_seed(1)).eval()
    good = unpack(pack(model, floats="fp32"))
    bad = {name: -w if name.startswith("predictor") else w for name, w in good.items()}  # logits of the other sign
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        y = model(x).argmax(1)
    view = view_of([good, bad, good], spec=spec, server=Server(validation=(x, y)))
    assert accuracies(view, [good, bad, good]) == [1.0, 0.0, 1.0]
    assert [why is not None for why in drop_worst(view)] == [False, True, False]


def test_unsound_updates_are_named() -> None:
    states = [
        {"w": torch.ones(2)},
        {"w": torch.tensor([1.0, float("nan")])},
        {"w": torch.tensor([1.0, float("-inf")])},
        {"w": torch.ones(3)},
        {},
        {"w": torch.ones(2), "v": torch.ones(2)},
    ]
    assert finite(view_of(states, previous={"w": torch.zeros(2)})) == [
        None,
        "'w' has values that are not finite",
        "'w' has values that are not finite",
        "'w' is (3,), expected (2,)",
        "'w' is missing",
        "'v' is unexpected",
    ]
