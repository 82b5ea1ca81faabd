"""Which prototypes take which kind of samples: images, text, or rows of numbers. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import ConfigError
from fleet.data.dataset import Kind
from fleet.simulation.settings.layers import about
from models.spec import parse_prototype
from models.zoo import ZOO

__all__ = ["check_kinds"]

TEXT = ("text", "distilbert")
ANY_SHAPE = ("mlp", "fedrad_mlp")  # also take rows of numbers
_TRY = {"text": "text:fp32,text:w1", "image": "cnn:fp32,mlp:fp32,cnn:w1", "features": "mlp:fp32,mlp:w1"}
_WORDS = {"text": "text", "image": "images", "features": "rows of numbers"}


def check_kinds(prototypes: Sequence[str], kind: Kind, dataset: str) -> None:
    """Refuse an architecture of the zoo that cannot take the samples; what users' own take is for them to say."""
    for prototype in prototypes:
        arch, _ = parse_prototype(prototype)
        if arch in ZOO and kind not in _takes(arch):
            takes = " or ".join(_WORDS[known] for known in _takes(arch))
            with about("prototypes", "dataset"):
                raise ConfigError(
                    f"--prototypes {prototype}: takes {takes}, but {dataset} is {_WORDS[kind]}; "
                    f"give others, such as --prototypes {_TRY[kind]}"
                )


def _takes(arch: str) -> tuple[Kind, ...]:
    if arch in TEXT:
        return ("text",)
    return ("image", "features") if arch in ANY_SHAPE else ("image",)
