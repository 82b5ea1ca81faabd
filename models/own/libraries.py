"""Backbones of timm and torchvision as prototypes: `timm:resnet18` is known as `timm.resnet18` in a fleet.

They are built without pretrained weights, for the dataset's channels and classes, and split and quantized like a user's
own network. torchvision's take three channels. Imports neither library until a backbone is built.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from core.errors import ConfigError, did_you_mean
from models.own.network import OwnNetwork

__all__ = ["LIBRARIES", "backbone", "check_library", "is_backbone"]


def _timm(library: Any, name: str, classes: int, channels: int) -> Any:
    return library.create_model(name, pretrained=False, num_classes=classes, in_chans=channels)


def _torchvision(library: Any, name: str, classes: int, channels: int) -> Any:
    if channels != 3:
        raise ConfigError(f"torchvision.{name} takes images of 3 channels, not {channels}; timm's take any number")
    return library.models.get_model(name, weights=None, num_classes=classes)


def _timm_names(library: Any) -> list[str]:
    return list(library.list_models())


def _torchvision_names(library: Any) -> list[str]:
    return list(library.models.list_models())


LIBRARIES: dict[str, tuple[Callable[..., Any], Callable[[Any], list[str]]]] = {
    "timm": (_timm, _timm_names),
    "torchvision": (_torchvision, _torchvision_names),
}


def is_backbone(arch: str) -> bool:
    """Whether the architecture is one of a library, such as `timm.resnet18`."""
    return arch.partition(".")[0] in LIBRARIES and "." in arch


def check_library(arch: str) -> None:
    """Raise ConfigError if the library of a backbone is not installed; imports nothing."""
    library = arch.partition(".")[0]
    if find_spec(library) is None:
        raise ConfigError(f"prototype {arch} needs {library}: pip install 'edgestill[{library}]'")


@functools.cache
def backbone(arch: str) -> OwnNetwork:
    """The network of a library, by its name there."""
    library, _, name = arch.partition(".")
    create, names = LIBRARIES[library]

    def make(classes: int, in_channels: int) -> Any:
        try:
            module = importlib.import_module(library)
        except Exception as error:  # torchvision's wheel raises RuntimeError beside a torch of another build
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(f"prototype {arch}: {library} cannot be imported ({reason})") from error
        known = names(module)
        if name not in known:
            raise ConfigError(f"{library} has no model {name!r}{did_you_mean(name, known)}")
        return create(module, name, classes, in_channels)

    return OwnNetwork(name=arch, make=make)
