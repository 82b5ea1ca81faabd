"""Drop-worst: the same fleets with and without the screen."""

from __future__ import annotations

from dataclasses import replace

from fleet.experiments.feddf.vgg import scene
from tests.fleet.experiments.feddf.made_up import cells_of, configs, made_up


def test_fleets_differ_in_the_screen_alone() -> None:
    fleets = configs("feddf-vgg")
    for recipe in ("fedavg", "feddf"):
        plain, screened = fleets[recipe], fleets[f"{recipe} drop-worst"]
        assert "screen" not in plain.fusion
        assert screened == replace(plain, fusion={**plain.fusion, "screen": ["drop-worst"]})


def test_the_screen_has_a_validation_set_and_the_prototype_no_batchnorm() -> None:
    config = scene("fedavg", drop_worst=True)
    assert config.validation_size
    assert config.prototypes == ("vgg9:fp32",)


def test_drop_worst_must_be_better_than_the_same_recipe_without() -> None:
    results, cells = made_up("feddf-vgg"), cells_of("feddf-vgg")
    for title in ("FedAvg", "FedDF"):
        target = cells[f"{title} with drop-worst"].target
        assert target is not None
        assert not isinstance(target.bound, float)
        bound = target.bound.value(results)
        assert bound == cells[title].ours.value(results)
        assert [target.met(value, bound) for value in (bound, bound + 0.1)] == [False, True]
