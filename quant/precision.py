"""Precisions by name: bits of a prototype's weights and activations. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import ConfigError, did_you_mean

__all__ = ["FP32", "PRECISIONS", "Precision", "parse_precision"]


@dataclass(frozen=True, slots=True)
class Precision:
    """Bits of the weights and of the activations; None means float32.

    >>> str(Precision(weight_bits=1, act_bits=None)), str(Precision(weight_bits=4, act_bits=4))
    ('w1', 'w4a4')
    """

    weight_bits: int | None
    act_bits: int | None

    def __str__(self) -> str:
        if self.weight_bits is None:
            return "fp32"
        return f"w{self.weight_bits}" + (f"a{self.act_bits}" if self.act_bits is not None else "")

    @property
    def quantized(self) -> bool:
        """Whether the weights have fewer bits than float32."""
        return self.weight_bits is not None


FP32 = Precision(None, None)
#: The six that edgestill trains. `w1` is FedDF's 1-bit experiment: binary weights, float activations.
PRECISIONS = (FP32, Precision(8, 8), Precision(4, 4), Precision(2, 2), Precision(1, None), Precision(1, 1))


def parse_precision(text: str) -> Precision:
    """The precision that `text` names.

    >>> parse_precision("w1a1").act_bits
    1
    """
    known = {str(p): p for p in PRECISIONS}
    if text not in known:
        hint = did_you_mean(text, known)
        raise ConfigError(f"unknown precision {text!r}{hint or ''}{'' if hint else ';'} known: {' '.join(known)}")
    return known[text]
