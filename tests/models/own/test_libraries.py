"""Backbones of other libraries.

timm imports torchvision, whose wheel does not load beside a CPU build of torch, so both are stand-ins: modules with
the functions that the adapter calls, which build a real network.
"""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from core.errors import ConfigError, ModelError
from models.build import build
from models.own import libraries
from models.own.libraries import backbone, is_backbone
from models.spec import PrototypeSpec, parse_prototype
from quant.binary import BinaryConv2d


class Tiny(nn.Module):
    """As timm's: features, a pool, and a classifier called fc."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.act1 = nn.ReLU(inplace=True)
        self.fc = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.act1(self.bn1(self.conv1(x))).mean((2, 3)))


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, *, pretrained: bool, num_classes: int, in_chans: int) -> nn.Module:
        assert (name, pretrained) == ("resnet18", False)
        return Tiny(num_classes, in_chans)

    timm = ModuleType("timm")
    timm.__dict__.update(create_model=create_model, list_models=lambda: ["resnet18", "vit_tiny"])
    vision = ModuleType("torchvision")
    models = SimpleNamespace(
        get_model=lambda name, *, weights, num_classes: Tiny(num_classes, 3), list_models=lambda: ["resnet18"]
    )
    vision.__dict__["models"] = models
    for module in (timm, vision):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(libraries, "find_spec", lambda name: name)
    backbone.cache_clear()


def spec(prototype: str, *, latent: int | None = None, channels: int = 3) -> PrototypeSpec:
    return PrototypeSpec(*parse_prototype(prototype), (channels, 8, 8), 5, latent)


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("latent", [None, 6])
def test_a_backbone_is_an_extractor_with_the_latent_adapter(latent: int | None) -> None:
    model = build(
        spec("timm.resnet18:w1", latent=latent, channels=1), generator=torch.Generator().manual_seed(0)
    ).eval()
    z = model.extractor(torch.randn(2, 1, 8, 8))
    assert z.shape == (2, latent or 8)
    assert model.predictor(z).shape == (2, 5)
    assert type(model.extractor.body.get_submodule("net.conv1")) is BinaryConv2d
    assert build(spec("torchvision.resnet18:fp32")).latent == 8


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize(
    ("prototype", "channels", "says"),
    [
        ("timm.resnet81:fp32", 3, "timm has no model 'resnet81'; did you mean 'resnet18'"),
        ("torchvision.resnet18:fp32", 1, "takes images of 3 channels, not 1"),
    ],
)
def test_mistakes_are_one_line(prototype: str, channels: int, says: str) -> None:
    with pytest.raises((ConfigError, ModelError), match=says):
        build(spec(prototype, channels=channels))


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"prototype timm.resnet18 needs timm: pip install 'edgestill\[timm\]'"):
        parse_prototype("timm.resnet18:w1")


def test_a_library_that_does_not_load_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(libraries, "find_spec", lambda name: name)
    monkeypatch.setattr(libraries.importlib, "import_module", broken)
    backbone.cache_clear()
    with pytest.raises(ConfigError, match=r"timm cannot be imported \(RuntimeError: operator torchvision::nms"):
        build(spec("timm.resnet18:fp32"))


def test_names_have_a_dot() -> None:
    assert is_backbone("timm.resnet18")
    assert not is_backbone("timm")
    assert not is_backbone("resnet8-gn")
