"""Whole rounds with real models: everybody's models teach everybody's student; the same inputs give the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from aggregator.evaluate import score_state
from aggregator.fusion.averages.mean import weighted_mean
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Fused, Group, Memory, Received, Server
from aggregator.recipes.catalogue import find_recipe
from core.errors import RoundError
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.pack import pack, unpack

MLP, CNN = (PrototypeSpec(*parse_prototype(name), (1, 8, 8), 3, 8) for name in ("mlp:fp32", "cnn:w1"))
SHORT = {"steps": 6, "batch_size": 8, "check_every": 3}
X = torch.randn(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
SERVER = Server(seed=5, source=X, test=(X, torch.arange(20) % 3))


def sent(spec: PrototypeSpec, device: str, number: int, **changes: object) -> Received:
    """What a device of this prototype sends: quantized where the prototype is."""
    state = unpack(pack(build(spec, generator=torch_rng(number, device)), floats="fp32"))
    return replace(Received(device=device, num_examples=number + 1, state=lambda: state), **changes)


def group(spec: PrototypeSpec, updates: Sequence[Received]) -> Group:
    model = build(spec, generator=torch_rng(0, "published"))
    previous = {n: w for n, w in model.state_dict().items() if not n.endswith("num_batches_tracked")}
    return Group(spec=spec, previous=previous, updates=updates)


GROUPS = [
    group(CNN, [sent(CNN, "c0", 0), sent(CNN, "c1", 1)]),
    group(MLP, [sent(MLP, "m0", 2), sent(MLP, "m1", 3)]),
]


def fuse(recipe: str, groups: Sequence[Group] = GROUPS, server: Server = SERVER, **overrides: object) -> Fused:
    return fuse_round(find_recipe(recipe, {**SHORT, **overrides}), groups, server, 1, Memory())


def same(a: Fused, b: Fused) -> bool:
    return all(
        torch.equal(tensor, b.states[name][key]) for name, state in a.states.items() for key, tensor in state.items()
    )


def test_all_prototypes_teach_every_student_which_starts_from_its_own_average(teachers: list[list[str]]) -> None:
    fused = fuse("feddf")
    assert teachers == [["c0", "c1", "m0", "m1"]]
    assert list(fused.states) == ["cnn:w1", "mlp:fp32"]
    for one in GROUPS:
        average = weighted_mean([u.state() for u in one.updates], [u.num_examples for u in one.updates])
        metrics, state = fused.metrics[one.name], fused.states[one.name]
        assert metrics["average_accuracy"] == score_state(build(one.spec), average, *SERVER.test)["accuracy"]
        assert metrics["distill_steps"] == 6
        assert state.keys() == average.keys()
        assert not torch.equal(state["predictor.weight"], average["predictor.weight"])
    assert 0 <= fused.metrics["cnn:w1"]["ensemble_accuracy"] == fused.metrics["mlp:fp32"]["ensemble_accuracy"] <= 1
    assert list(fused.seconds) == ["screen", "weigh", "average", "teach", "score", "distill"]


def test_the_student_comes_nearer_to_its_teachers() -> None:
    """Kullback-Leibler divergence to the mean logits of the teachers, before and after."""

    def gap(state: dict) -> float:
        model = build(MLP)
        model.load_state_dict(state)
        model.eval()
        target = torch.stack([_logits(u) for u in GROUPS[1].updates]).mean(0).softmax(1)
        return torch.nn.functional.kl_div(model(X).log_softmax(1), target, reduction="batchmean").item()

    only_mlp = [GROUPS[1]]
    average = fuse_round(find_recipe("fedavg"), only_mlp, SERVER, 1, Memory()).states["mlp:fp32"]
    assert gap(fuse("feddf", only_mlp, steps=40).states["mlp:fp32"]) < 0.5 * gap(average)


@torch.no_grad()
def _logits(update: Received) -> torch.Tensor:
    model = build(MLP)
    model.load_state_dict(dict(update.state()))
    return model.eval()(X)


def test_the_same_round_gives_the_same_bits_and_another_seed_others() -> None:
    first = fuse("fedrad")
    assert same(first, fuse("fedrad", list(reversed(GROUPS))))
    assert not same(first, fuse("fedrad", server=replace(SERVER, seed=6)))


def test_fedrad_reports_scores_that_sum_to_one_and_weighs_by_them() -> None:
    fused = fuse("fedrad")
    scores = {device: report.score for device, report in fused.devices.items()}
    assert sum(scores.values()) == pytest.approx(1.0)
    weighed = {d: scores[d] * n for d, n in (("c0", 1), ("c1", 2))}
    for device, weight in weighed.items():
        assert fused.devices[device].weight == pytest.approx(weight / sum(weighed.values()))
    assert fused.seconds["teach"] > 0


def test_late_models_teach_and_predictors_do_not(teachers: list[list[str]]) -> None:
    alone = {"predictor.weight": torch.ones(3, 8), "predictor.bias": torch.ones(3)}
    predictor = Received(device="m2", num_examples=1, state=lambda: alone, predictor_only=True)
    late = sent(CNN, "c2", 9, late=True)
    groups = [group(CNN, [sent(CNN, "c0", 0), late]), group(MLP, [predictor])]
    fused = fuse("feddf", groups)
    assert teachers == [["c0", "c2"]]
    assert fused.devices["c0"].weight == 1.0
    assert (fused.states["mlp:fp32"]["predictor.weight"] == 1).all()  # no whole model: averaged, not distilled
    before = groups[1].previous
    assert all(torch.equal(before[n], w) for n, w in fused.states["mlp:fp32"].items() if n.startswith("extractor"))
    assert "distill_steps" not in fused.metrics["mlp:fp32"]


def test_a_prototype_of_which_only_late_models_came_keeps_its_model(teachers: list[list[str]]) -> None:
    groups = [GROUPS[0], group(MLP, [sent(MLP, "m0", 2, late=True)])]
    fused = fuse("feddf", groups)
    assert teachers == [["c0", "c1", "m0"]]
    assert all(torch.equal(groups[1].previous[n], w) for n, w in fused.states["mlp:fp32"].items())


def test_graphs_of_the_aggregator_teach_too(teachers: list[list[str]]) -> None:
    model = build(MLP, generator=torch_rng(7)).eval()
    graph = export_onnx(model, model.example_input(2)).data
    with_graph = fuse("feddf", server=replace(SERVER, teachers=[graph]))
    assert teachers[0][-1] == "ONNX teacher 1"
    assert len(teachers[0]) == 5
    assert not same(with_graph, fuse("feddf"))


def test_fedbe_teaches_by_sampled_models_and_averages_too(teachers: list[list[str]]) -> None:
    fuse("fedbe", samples=2, swa=3)
    assert len(teachers[-1]) == 4 + 2 * (1 + 2)  # received, and per prototype the average and two drawn around it
    assert teachers[-1][4:7] == ["cnn:w1 sample 0", "cnn:w1 sample 1", "cnn:w1 sample 2"]


def test_students_start_from_the_published_model_on_request() -> None:
    how = {"lr": 0.0}
    previous = fuse("feddf", start="previous", **how).states["mlp:fp32"]
    assert torch.equal(previous["predictor.weight"], GROUPS[1].previous["predictor.weight"])
    average = fuse("feddf", start="average", **how).states["mlp:fp32"]
    assert not torch.equal(average["predictor.weight"], GROUPS[1].previous["predictor.weight"])


def test_a_recipe_that_teaches_nothing_uses_no_samples(teachers: list[list[str]]) -> None:
    without = fuse_round(find_recipe("fedavg"), GROUPS, Server(), 1, Memory())
    assert teachers == []
    assert same(without, fuse_round(find_recipe("fedavg"), GROUPS, SERVER, 1, Memory()))


def test_without_samples_a_recipe_that_needs_them_is_refused() -> None:
    with pytest.raises(RoundError, match=r"recipe fedrad needs unlabeled samples; give \[fusion\] source"):
        fuse("fedrad", server=Server())


def test_the_ensemble_is_scored_only_on_request() -> None:
    fused = fuse("feddf", server=replace(SERVER, score_ensemble=False))
    assert "ensemble_accuracy" not in fused.metrics["mlp:fp32"]
    assert "average_accuracy" in fused.metrics["mlp:fp32"]
    assert "average_accuracy" not in fuse("feddf", server=replace(SERVER, test=None)).metrics["mlp:fp32"]
