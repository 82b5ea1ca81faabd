from functools import partial

import pytest
import torch

from aggregator.fusion.types import Group, Memory, Received, Server
from aggregator.recipes.catalogue import find_recipe
from fleet.experiments.fedrad.authors import DropoutTeacher, dropout_error, fuse_with_dropout
from fleet.experiments.fedrad.plans import PLANS
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype

SPEC = PrototypeSpec(*parse_prototype("fedrad_mlp:fp32"), (4,), 3, 256)
CPU = torch.device("cpu")


def model(seed=0):
    return build(SPEC, generator=torch_rng(seed, "init"))


def test_an_error_is_measured_with_dropout_on():
    x = torch.randn(200, 4, generator=torch_rng(0, "x"))
    one = model()
    y = one.eval()(x).argmax(1)
    with_dropout = dropout_error(one, x, y, torch_rng(1, "test"))
    assert 0 < with_dropout < 1  # without dropout, every answer would be y
    assert dropout_error(one, x, y, torch_rng(1, "test")) == with_dropout
    assert dropout_error(one, x, y, torch_rng(2, "test")) != with_dropout


def test_a_teacher_answers_with_dropout_on():
    x = torch.randn(5, 4, generator=torch_rng(0, "x"))
    state = model().state_dict()
    answers = [
        DropoutTeacher(device="a", spec=SPEC, state=partial(dict, state), rng=torch_rng(seed, "r")).open(CPU)(x)
        for seed in (0, 0, 1)
    ]
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])
    assert not torch.equal(answers[0], model().eval()(x))
    assert not answers[0].requires_grad


def received(device, state, n=10):
    return Received(device=device, num_examples=n, state=partial(dict, state))


def test_a_round_with_dropout_weighs_noise_at_nothing_and_moves_the_average_little():
    honest = [model(seed=0).state_dict() for _ in range(4)]
    noise = {name: w + 20 * torch.randn(w.shape, generator=torch_rng(3, name)) for name, w in honest[0].items()}
    updates = [received(f"d{i}", s) for i, s in enumerate([*honest, noise])]
    group = Group(spec=SPEC, previous=honest[0], updates=updates)
    server = Server(source=torch.randn(40, 4, generator=torch_rng(0, "x")))
    recipe = find_recipe("fedrad", PLANS["reference"].fusion)
    fused = fuse_with_dropout(recipe, [group], server, 1, Memory())
    weights = {device: report.weight for device, report in fused.devices.items()}
    assert weights["d4"] == 0
    assert sum(weights.values()) == pytest.approx(1)
    moved = max(float((fused.states[group.name][n] - w).abs().max()) for n, w in honest[0].items())
    assert 0 < moved < 1e-2
