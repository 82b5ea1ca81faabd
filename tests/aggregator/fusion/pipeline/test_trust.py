"""Rounds that go by predictors: generators, trust without samples, logits by label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Fused, Group, Memory, Received, Server
from aggregator.recipes.catalogue import find_recipe
from models.build import build
from models.roles import slice_state
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from quant.pack import pack, pack_state, unpack

SMALL = {"generator_noise_width": 4, "generator_hidden": 8, "generator_steps": 5}
MLP, W1 = (PrototypeSpec(*parse_prototype(name), (1, 4, 4), 3, 6) for name in ("mlp:fp32", "mlp:w1"))


def published(spec: PrototypeSpec) -> dict[str, torch.Tensor]:
    return unpack(pack_state(build(spec, generator=torch_rng(0, "published")).state_dict(), floats="fp32"))


def honest(spec: PrototypeSpec, device: str, **other: object) -> Received:
    """Near the published model, as after a round of training."""
    model = build(spec)
    model.load_state_dict(published(spec), strict=False)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.02 * torch.randn(p.shape, generator=torch_rng(1, device, tuple(p.shape)))
    state = unpack(pack(model, floats="fp32"))
    facts: dict = {"num_examples": 6, "label_counts": (2, 2, 2)}
    return Received(device=device, state=lambda: state, **{**facts, **other})


def faulty(spec: PrototypeSpec, device: str, **other: object) -> Received:
    """Noise of standard deviation 20 on everything, as FedRAD's faulty devices send."""
    good = honest(spec, device, **other)
    state = {n: w + 20 * torch.randn(w.shape, generator=torch_rng(2, device, n)) for n, w in good.state().items()}
    return replace(good, state=lambda: state)


def alone(update: Received) -> Received:
    return replace(update, state=lambda: slice_state(update.state(), "predictor"), predictor_only=True)


def fuse(recipe: str, groups: Sequence[Group], memory: Memory | None = None, number: int = 1, **more: object) -> Fused:
    return fuse_round(find_recipe(recipe, more), groups, Server(seed=5), number, memory or Memory())


def group(spec: PrototypeSpec, updates: Sequence[Received]) -> Group:
    return Group(spec=spec, previous=published(spec), updates=updates)


GOOD = [honest(MLP, f"m{i}") for i in range(4)]


def test_fedgen_averages_as_fedavg_and_leaves_a_generator() -> None:
    groups = [group(MLP, GOOD), group(W1, [honest(W1, "w0"), honest(W1, "w1")])]
    plain, guided = fuse("fedavg", groups), fuse("fedgen", groups, **SMALL)
    for name, state in plain.states.items():
        assert all(torch.equal(w, guided.states[name][key]) for key, w in state.items())
    assert plain.side_artifact is None
    assert guided.side_artifact is not None
    assert guided.side_artifact.latent == 6
    assert set(guided.seconds) >= {"average", "generate"}


def test_predictors_alone_are_enough_for_the_generator() -> None:
    fused = fuse("fedgen", [group(MLP, [alone(update) for update in GOOD])], **SMALL)
    assert fused.side_artifact is not None
    whole = fuse("fedgen", [group(MLP, GOOD)], **SMALL)
    assert whole.side_artifact is not None
    assert torch.equal(fused.side_artifact.tensors["fc1.weight"], whole.side_artifact.tensors["fc1.weight"])


@pytest.mark.parametrize("number", [1, 2])
def test_without_samples_edgestill_finds_faulty_devices_by_their_predictors(number: int) -> None:
    """In round 1 on Gaussian latents, in round 2 on generated ones."""
    memory = Memory()
    if number == 2:
        memory = fuse("edgestill", [group(MLP, GOOD)], **SMALL).memory
    groups = [group(MLP, [*GOOD, faulty(MLP, "x0")]), group(W1, [honest(W1, f"w{i}") for i in range(3)])]
    fused = fuse("edgestill", groups, memory, number, **SMALL)
    assert fused.devices["x0"].weight == 0.0
    assert "hardly ever the median" in str(fused.devices["x0"].screened)
    assert sum(fused.devices[f"m{i}"].weight for i in range(4)) == pytest.approx(1.0)
    far = (fused.states["mlp:fp32"]["predictor.weight"] - published(MLP)["predictor.weight"]).abs().max()
    assert float(far) < 0.2


def test_without_samples_edgestill_finds_devices_that_teach_one_label_alone() -> None:
    """After a round with label 0 only, the bias of class 0 is raised and all others are lowered."""
    spec = PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 4, 4), 10, 6)
    good = [honest(spec, f"m{i}", label_counts=(1,) * 10) for i in range(5)]
    turned = honest(spec, "x0", label_counts=(10, *[0] * 9))
    state = {**turned.state(), "predictor.bias": turned.state()["predictor.bias"] + 0.2 * (torch.eye(10)[0] - 0.1)}
    groups = [group(spec, [*good, replace(turned, state=lambda: state)])]
    fused = fuse("edgestill", groups, **SMALL)
    assert fused.devices["x0"].weight == 0.0
    assert "one label" in str(fused.devices["x0"].screened)
    assert all(fused.devices[f"m{i}"].weight > 0 for i in range(5))
    kept = fuse("edgestill", groups, trust_lean=1.0, **SMALL)
    assert kept.devices["x0"].weight > 0


def test_a_faulty_device_has_no_say_in_the_generator() -> None:
    """What it says does not matter, as long as it is faulty."""
    one = fuse("edgestill", [group(MLP, [*GOOD, faulty(MLP, "x0")])], **SMALL).side_artifact
    two = fuse("edgestill", [group(MLP, [*GOOD, faulty(MLP, "x0", label_counts=(90, 0, 0))])], **SMALL).side_artifact
    assert one is not None
    assert two is not None
    assert torch.equal(one.tensors["fc2.weight"], two.tensors["fc2.weight"])
    assert torch.equal(one.tensors["labels"], two.tensors["labels"])


def test_faulty_predictors_that_come_alone_are_left_out_of_the_average() -> None:
    updates = [alone(update) for update in (*GOOD, faulty(MLP, "x0"))]
    fused = fuse("edgestill", [group(MLP, updates)], **SMALL)
    far = (fused.states["mlp:fp32"]["predictor.weight"] - published(MLP)["predictor.weight"]).abs().max()
    assert float(far) < 0.2
    assert torch.equal(
        fused.states["mlp:fp32"]["extractor.body.fc1.weight"], published(MLP)["extractor.body.fc1.weight"]
    )
    drowned = fuse("fedgen", [group(MLP, updates)], **SMALL)
    lost = (drowned.states["mlp:fp32"]["predictor.weight"] - published(MLP)["predictor.weight"]).abs().max()
    assert float(lost) > 2


def test_with_samples_edgestill_teaches_by_medians_and_scores_whole_models() -> None:
    source = torch.randn(24, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    recipe = find_recipe("edgestill", {**SMALL, "steps": 4, "batch_size": 8, "check_every": 2})
    groups = [group(MLP, [*GOOD, faulty(MLP, "x0")])]
    fused = fuse_round(recipe, groups, Server(seed=5, source=source), 1, Memory())
    assert fused.devices["x0"].weight == 0.0
    assert fused.metrics["mlp:fp32"]["distill_steps"] == 4
    assert fused.side_artifact is not None


def test_with_samples_who_is_not_trusted_does_not_teach(teachers: list[list[str]]) -> None:
    source = torch.randn(24, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    recipe = find_recipe("edgestill", {**SMALL, "steps": 4, "batch_size": 8, "check_every": 2})
    groups = [group(MLP, [*GOOD, faulty(MLP, "x0"), faulty(MLP, "x1")])]
    fused = fuse_round(recipe, groups, Server(seed=5, source=source), 1, Memory())
    scored, taught = teachers
    assert scored == ["m0", "m1", "m2", "m3", "x0", "x1"]
    assert taught == [device for device, report in fused.devices.items() if report.weight]
    assert "m0" in taught
    assert not {"x0", "x1"} & set(taught)
    assert fused.metrics["mlp:fp32"]["distill_steps"] == 4


def test_feddistill_averages_no_model_and_leaves_logits() -> None:
    def sent(device: str, value: float) -> Received:
        extra = {"label-logits": torch.full((3, 3), value)}
        return Received(
            device=device, num_examples=3, state=dict, label_counts=(1, 1, 1), model=False, extra=lambda: extra
        )

    fused = fuse("feddistill", [group(MLP, [sent("a", 1.0), sent("b", 3.0)])])
    assert all(torch.equal(w, published(MLP)[name]) for name, w in fused.states["mlp:fp32"].items())
    assert fused.side_artifact is not None
    assert fused.side_artifact.tensors["label-logits"].unique().tolist() == [2.0]


def test_fedensemble_reports_how_good_the_models_are_together() -> None:
    x = torch.randn(30, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    model, total = build(MLP), torch.zeros(30, 3)
    for update in GOOD:
        model.load_state_dict(update.state(), strict=False)
        with torch.no_grad():
            total += model.eval()(x)
    y = total.argmax(1)
    y[:15] = (y[:15] + 1) % 3  # half of the labels are wrong
    server = Server(seed=5, test=(x, y))
    fused = fuse_round(find_recipe("fedensemble"), [group(MLP, GOOD)], server, 1, Memory())
    assert fused.metrics["mlp:fp32"]["ensemble_accuracy"] == 0.5


def test_predictors_are_refined_only_without_samples() -> None:
    groups = [group(MLP, GOOD), group(W1, [honest(W1, "w0"), honest(W1, "w1")])]
    plain, refined = (fuse("edgestill", groups, **SMALL, **how) for how in ({"refine": 0}, {}))
    for name in ("mlp:fp32", "mlp:w1"):
        before, after = plain.states[name], refined.states[name]
        assert {key for key, w in after.items() if not torch.equal(w, before[key])} == {
            "predictor.weight",
            "predictor.bias",
        }
    assert plain.side_artifact is not None
    assert refined.side_artifact is not None
    assert torch.equal(plain.side_artifact.tensors["fc1.weight"], refined.side_artifact.tensors["fc1.weight"])
    source = torch.randn(24, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    told = {**SMALL, "steps": 2, "batch_size": 8, "refine": 3}
    taught, same = (
        fuse_round(find_recipe("edgestill", how), groups, Server(seed=5, source=source), 1, Memory())
        for how in (told, {**told, "refine": 0})
    )
    assert torch.equal(taught.states["mlp:fp32"]["predictor.bias"], same.states["mlp:fp32"]["predictor.bias"])


def test_predictors_that_came_alone_have_their_share_of_the_predictors_average() -> None:
    updates = [alone(GOOD[0]), alone(replace(GOOD[1], num_examples=18))]
    fused = fuse("fedgen", [group(MLP, updates)], **SMALL)
    assert {name: report.weight for name, report in fused.devices.items()} == {"m0": 0.25, "m1": 0.75}


def test_without_samples_an_extractor_that_went_astray_moves_the_model_as_far_as_five_others() -> None:
    """Its predictor is like the others', so agreement has nothing against it."""
    good = honest(MLP, "astray")
    state = {n: w if n.startswith("predictor.") else w + 1000 for n, w in good.state().items()}
    updates = [*GOOD, replace(good, state=lambda: state)]
    before = published(MLP)

    def moved(**more: object) -> float:
        fused = fuse("edgestill", [group(MLP, updates)], refine=0, **SMALL, **more).states[str(MLP)]
        return max(float((w - before[n]).abs().max()) for n, w in fused.items())

    assert moved(trust_reach=0.0) > 50  # a fifth of 1000, less by trust
    assert moved() < 1


@pytest.mark.parametrize("recipe", ["feddf", "feddf-median", "fedbe", "fedrad", "edgestill"])
def test_models_that_nobody_can_learn_from_leave_the_averages(recipe: str) -> None:
    """All weights at 10^30: every answer overflows."""
    huge = {name: torch.full_like(w, 1e30) for name, w in published(MLP).items()}
    update = replace(GOOD[0], state=lambda: huge)
    server = Server(seed=5, source=torch.ones(4, 1, 4, 4))
    small = SMALL if recipe == "edgestill" else {}
    fused = fuse_round(find_recipe(recipe, small), [group(MLP, [update])], server, 1, Memory())
    assert fused.metrics["mlp:fp32"]["untaught"] == 1.0
    assert all(bool(w.isfinite().all()) for w in fused.states["mlp:fp32"].values())
