"""Local training on the pretend accelerator gives the CPU's models: every precision, every architecture, every term."""

from __future__ import annotations

import logging

import pytest
import torch
from torch.nn import functional as F

from edge_agent.training.fast.select import fast_trainer
from edge_agent.training.local_round import local_update
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import Trained
from models.build import build
from models.on_device import device_of
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.pack import pack_state
from tests import accelerator

torch.set_num_threads(1)
ACC, CPU = torch.device(accelerator.NAME), torch.device("cpu")
HOW = LocalTraining(lr=0.01, batch_size=4, steps=3, momentum=0.9, clip=1.0, fast="off")
PRECISIONS = ("fp32", "w8a8", "w4a4", "w2a2", "w1", "w1a1")
ARCHITECTURES = (
    "cnn",
    "mlp",
    "fedrad_mlp",
    "mcmahan_cnn",
    "resnet8",
    "resnet8-gn",
    "vgg9",
    "shufflenetv2",
    "mobilenetv2",
)


def fresh(name: str) -> Prototype:
    shape = (12,) if name.startswith("text") else (3, 16, 16)
    spec = PrototypeSpec(*parse_prototype(name), shape, 5, 8)
    return build(spec, generator=torch.Generator().manual_seed(1))


def trained(name: str, device: torch.device, how: LocalTraining = HOW) -> tuple[dict[str, torch.Tensor], Trained]:
    model = fresh(name)
    x, y = model.example_input(10, generator=torch.Generator().manual_seed(2)), torch.arange(10) % 5
    published, generator = pack_state(model.state_dict()), torch.Generator().manual_seed(3)
    accelerator.fresh()
    packed, facts = local_update(model, published, x, y, how, floats="fp32", generator=generator, device=device)
    assert accelerator.used() == (device.type == "acc")
    assert device_of(model) == CPU
    assert set(packed) <= set(model.state_dict())
    return model.state_dict(), facts


def check(name: str, how: LocalTraining = HOW) -> None:
    (here, facts), (there, told) = trained(name, CPU, how), trained(name, ACC, how)
    assert told.steps == facts.steps
    assert told.loss == pytest.approx(facts.loss, abs=1e-5)
    begun = fresh(name).state_dict()
    assert any(not torch.equal(w, begun[key]) for key, w in here.items()), "it has learned nothing"
    for key, w in here.items():
        torch.testing.assert_close(there[key], w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "w1a1", "w4a4"])
def test_a_model_has_the_numbers_of_the_cpu(precision: str) -> None:
    check(f"cnn:{precision}")


@pytest.mark.parametrize(
    "changes",
    [{"prox": 0.1}, {"weight_decay": 0.01}, {"momentum": 0.0, "clip": 0.0}],
    ids=["FedProx", "weight decay", "plain steps"],
)
def test_every_term_of_a_step_gives_the_numbers_of_the_cpu(changes: dict[str, float]) -> None:
    how = {"lr": 0.01, "batch_size": 4, "steps": 3, "momentum": 0.9, "clip": 1.0, "fast": "off", **changes}
    check("mlp:fp32", LocalTraining(**how))  # type: ignore[arg-type]


def test_masks_of_dropout_are_those_of_the_cpu() -> None:
    check("fedrad_mlp:fp32")


@pytest.mark.slow  # 54 networks, each trained twice
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_at_every_precision(arch: str, precision: str) -> None:
    # in steps of 0.01, rounding grows to 6e-5 through the many norms of a ShuffleNet
    lr = 1e-3 if arch == "shufflenetv2" else 0.01
    check(f"{arch}:{precision}", LocalTraining(lr=lr, batch_size=5, steps=2, momentum=0.9, clip=1.0, fast="off"))


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_texts_at_every_precision(precision: str) -> None:
    check(f"text:{precision}")


def test_fast_paths_step_aside_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    model, auto = fresh("mlp:fp32"), LocalTraining(lr=0.1, batch_size=4, steps=1)
    x, y = torch.zeros(4, 3, 16, 16), torch.zeros(4, dtype=torch.long)
    assert fast_trainer(model, x, y, auto, F.cross_entropy, None) is not None
    with caplog.at_level(logging.DEBUG, "edgestill.training"):
        assert fast_trainer(model.to(ACC), x.to(ACC), y.to(ACC), auto, F.cross_entropy, None) is None
    assert "acc:0, amp off: every step by autograd" in caplog.text
    mixed = LocalTraining(lr=0.1, batch_size=4, steps=1, amp="bf16")
    assert fast_trainer(fresh("mlp:fp32"), x, y, mixed, F.cross_entropy, None) is None


@pytest.mark.parametrize("name", ["mlp:fp32", "cnn:w1"])
def test_mixed_precision_trains_about_the_same_model(name: str) -> None:
    """On the CPU: the pretend accelerator has no autocast."""
    mixed = LocalTraining(lr=0.01, batch_size=4, steps=3, momentum=0.9, clip=1.0, amp="bf16")
    (here, facts), (there, told) = trained(name, CPU), trained(name, CPU, mixed)
    assert told.loss == pytest.approx(facts.loss, rel=0.05)
    assert any(not torch.equal(w, there[key]) for key, w in here.items()), "nothing was computed in bfloat16"
    assert all(w.dtype == there[key].dtype for key, w in here.items()), "the model itself stays float32"
    weight = "predictor.weight"
    assert float((there[weight] - here[weight]).abs().max()) < 0.02
