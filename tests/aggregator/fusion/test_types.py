"""What parts see of a round: who is in it, in which order, and randomness by purpose."""

from dataclasses import replace

import torch

from aggregator.fusion.example_cap import Capped
from aggregator.fusion.types import DeviceReport, Fused, Memory, Server
from tests.aggregator.fusion.views import points, received, view_of


def test_members_are_whole_models_and_predictors_alone_by_id() -> None:
    view = replace(view_of(points([1.0], [2.0]), devices=["b", "d"], examples=[3, 4]), alone=[received("c", {})])
    assert [update.device for update in view.members] == ["b", "c", "d"]
    assert view.devices == ["b", "d"]
    assert view.num_examples == [3, 4]


def test_randomness_depends_on_seed_round_prototype_and_purpose_and_on_nothing_else() -> None:
    view = view_of(points([1.0]))

    def drawn(seen: object, *purpose: object) -> list[float]:
        return torch.rand(3, generator=seen.rng(*purpose)).tolist()

    same = replace(view, updates=[], options={"trust_cut": 1}, memory=Memory(facts={"a": 1}))
    assert drawn(view, "distill") == drawn(same, "distill")
    others = [
        drawn(view, "refine"),
        drawn(view, "distill", 1),
        drawn(replace(view, round_number=2), "distill"),
        drawn(replace(view, server=Server(seed=1)), "distill"),
        drawn(replace(view, spec=replace(view.spec, arch="cnn")), "distill"),
    ]
    assert drawn(view, "distill") not in others
    assert len({tuple(values) for values in others}) == len(others)


def test_a_device_counts_for_its_claim_unless_it_was_capped() -> None:
    reports = {"a": DeviceReport(weight=1.0), "b": DeviceReport(weight=1.0, capped=Capped(claimed=900, counted=30))}
    fused = Fused(states={}, memory=Memory(), devices=reports, metrics={}, seconds={})
    assert [fused.counted("a", 5), fused.counted("b", 900), fused.counted("of no round", 7)] == [5, 30, 7]
