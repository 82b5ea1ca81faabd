"""The specification of a prototype: architecture, precision, input, classes, latent width. Imports no torch.

A prototype is written `arch:precision`, for example `resnet8-gn:w1`; `cnn` alone means `cnn:fp32`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import ConfigError
from core.limits import LATENT, Range
from models.registry import check_name
from quant.precision import FP32, Precision, parse_precision

__all__ = ["PrototypeSpec", "parse_prototype"]

MOST_CLASSES, MOST_NUMBERS = 10_000, 2**22  # of one sample


@dataclass(frozen=True, slots=True)
class PrototypeSpec:
    """A prototype before it is built.

    >>> str(PrototypeSpec("resnet8-gn", Precision(1, None), (3, 32, 32), 10))
    'resnet8-gn:w1'
    """

    arch: str  # registry name
    precision: Precision
    input_shape: tuple[int, ...]  # of one sample: (C, H, W) for images, (L,) for token ids
    classes: int
    latent: int | None = None  # fleet-wide D; None: the architecture's own width, no adapter

    def __post_init__(self) -> None:
        if not self.input_shape or min(self.input_shape) < 1:
            raise ConfigError(f"{self}: the input shape {self.input_shape} needs one or more positive sizes")
        if self.classes < 2:
            raise ConfigError(f"{self}: {self.classes} classes are too few; give 2 or more")
        Range(2, MOST_CLASSES).check(self.classes, f"{self}: classes")
        LATENT.check(self.latent, f"{self}: latent width")
        if math.prod(self.input_shape) > MOST_NUMBERS:
            raise ConfigError(
                f"{self}: an input shape of {math.prod(self.input_shape):,} numbers; at most {MOST_NUMBERS:,}"
            )

    def __str__(self) -> str:
        return f"{self.arch}:{self.precision}"

    def to_json(self) -> dict[str, Any]:
        """A JSON-compatible form, for other processes.

        >>> spec = PrototypeSpec("cnn", FP32, (1, 28, 28), 10)
        >>> PrototypeSpec.from_json(spec.to_json()) == spec
        True
        """
        shape = {"input_shape": list(self.input_shape), "classes": self.classes, "latent": self.latent}
        return {"prototype": str(self), **shape}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> PrototypeSpec:
        """The inverse of `to_json`; other keys are ignored."""
        arch, precision = parse_prototype(facts["prototype"])
        return cls(arch, precision, tuple(facts["input_shape"]), facts["classes"], facts["latent"])


def parse_prototype(text: str) -> tuple[str, Precision]:
    """Architecture and precision of `arch:precision`; both must be known.

    >>> arch, precision = parse_prototype("cnn:w1")
    >>> arch, str(precision)
    ('cnn', 'w1')
    """
    arch, colon, precision = text.partition(":")
    check_name(arch)
    return arch, parse_precision(precision) if colon else FP32
