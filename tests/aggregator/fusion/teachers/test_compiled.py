"""Teachers in torch are graphs whose BatchNorms are folded into the convolutions before them."""

import logging

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from aggregator.fusion.teachers import compiled
from aggregator.fusion.teachers.compiled import folded, frozen_module
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.zoo import ZOO

CPU = torch.device("cpu")


def spec_of(name: str) -> PrototypeSpec:
    arch, precision = parse_prototype(name)
    return PrototypeSpec(arch, precision, (12,) if arch == "text" else (3, 32, 32), 5)


def folded_of(name: str) -> nn.Module:
    spec = spec_of(name)
    return folded(spec, build(spec, generator=torch.Generator().manual_seed(1)).state_dict())


@pytest.mark.parametrize("arch", sorted(set(ZOO) - {"distilbert"}))  # which has files of its own
def test_every_prototype_of_the_zoo_is_traced(arch: str) -> None:
    assert isinstance(folded_of(f"{arch}:fp32"), GraphModule)


@pytest.mark.parametrize("name", ["cnn", "resnet8", "vgg9", "mcmahan_cnn", "cnn:w1", "resnet8:w1a1"])
def test_no_batchnorm_is_left_behind_a_convolution(name: str) -> None:
    assert [m for m in folded_of(name).modules() if isinstance(m, nn.BatchNorm2d)] == []


def test_what_cannot_be_traced_is_named_and_answers_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(module: nn.Module) -> GraphModule:
        raise TypeError("'Proxy' object cannot be interpreted as an integer")

    monkeypatch.setattr(compiled, "symbolic_trace", refuse)
    compiled._traced.cache_clear()
    spec = spec_of("cnn:fp32")
    model = build(spec, generator=torch.Generator().manual_seed(1)).eval()
    with caplog.at_level(logging.WARNING, "edgestill.aggregator"):
        teacher = frozen_module(spec, model.state_dict(), CPU)
    compiled._traced.cache_clear()
    assert "cnn:fp32: its teachers keep their BatchNorms" in caplog.text
    assert "TypeError" in caplog.text
    x = model.example_input(3, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        torch.testing.assert_close(teacher(x), model(x))
