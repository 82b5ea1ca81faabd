"""The card of a model file: what it expects and answers, and where it comes from. Imports neither NumPy nor torch.

A card is stored twice with equal content: as metadata inside the ONNX file, one property per field (text as it is,
everything else as JSON), and as a JSON file beside it, which also names the ONNX file and its SHA-256.

    input.dtype       float32, uint8 or int64 (token ids)
    input.layout      of one batch: NCHW, NCL, NF, or NL for token ids
    input.shape       of one sample, without N
    input.mean, std   x = (raw - mean) / std, one number or one per channel, where raw are bytes of an image or readings
                      of a sensor; without them the samples are used as they are
    input.inside      whether the graph does that itself
    output            logits, or probabilities (their softmax)
    base              digest of the fleet's model that this one was made from
    accuracy          at the model's own precision, on `accuracy_samples` samples that were not trained on
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.errors import ModelError

__all__ = ["CARD_VERSION", "InputCard", "ModelCard", "layout_of"]

CARD_VERSION = 1
Size = Annotated[int, Meta(ge=1, le=2**22)]
Name = Annotated[str, Meta(max_length=200)]
Numbers = Annotated[tuple[float, ...], Meta(min_length=1, max_length=2**16)]


class InputCard(msgspec.Struct, frozen=True, kw_only=True):
    """What one sample must look like."""

    dtype: Literal["float32", "uint8", "int64"]
    layout: Name
    shape: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=7)]
    mean: Numbers | None = None
    std: Numbers | None = None
    inside: bool = False
    sample_rate: float | None = None  # of windows, in Hz

    @property
    def tokens(self) -> bool:
        """Whether samples are token ids."""
        return self.dtype == "int64"


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """The card; `card` is the version of this format."""

    card: int = CARD_VERSION
    prototype: Name = ""
    precision: Name = ""
    classes: Annotated[int, Meta(ge=1, le=10_000)]
    class_names: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()
    input: InputCard
    output: Literal["logits", "probabilities"] = "logits"
    latent: int | None = None
    fleet: Name = ""
    device: Name = ""
    round: int | None = None
    base: Name = ""
    trained_here: bool = False
    accuracy: float | None = None
    accuracy_samples: int | None = None
    edgestill: Name = ""
    file: Name | None = None
    sha256: Name | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names, or the numbers of the classes if the fleet has not named them."""
        return self.class_names or tuple(map(str, range(self.classes)))

    def to_json(self) -> str:
        """The card as the text of a JSON file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, data: bytes, where: str) -> ModelCard | None:
        """The inverse; None for `current.json` of an older edgestill, which is no card. ModelError names `where`."""
        try:
            fields = msgspec.json.decode(data, type=dict[str, Any])
            return _checked(msgspec.convert(fields, cls), where) if "card" in fields else None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ModelError(f"{where}: not a model card ({error}); the agent of this version writes one") from None

    def to_metadata(self) -> dict[str, str]:
        """The card as properties of an ONNX file, without the name and the digest of that file."""
        fields = {name: value for name, value in _builtins(self).items() if name not in ("file", "sha256")}
        return {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in fields.items()
            if value is not None
        }

    @classmethod
    def from_metadata(cls, properties: Mapping[str, str], where: str) -> ModelCard | None:
        """The inverse; None if the file has no card. Properties that are not of a card are ignored."""
        if "card" not in properties:
            return None
        texts = {field.name for field in msgspec.structs.fields(cls) if field.type is Name}
        known = {field.name for field in msgspec.structs.fields(cls)}
        try:
            fields = {
                name: text if name in texts or name == "output" else msgspec.json.decode(text)
                for name, text in properties.items()
                if name in known
            }
            return _checked(msgspec.convert(fields, cls), where)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ModelError(f"{where}: its metadata are not a model card ({error}); export it again") from None


def layout_of(shape: tuple[int, ...], *, tokens: bool = False) -> str:
    """The layout of a batch of samples of this shape.

    >>> layout_of((3, 32, 32)), layout_of((6, 128)), layout_of((9,)), layout_of((64,), tokens=True)
    ('NCHW', 'NCL', 'NF', 'NL')
    """
    if tokens:
        return "NL"
    return {1: "NF", 2: "NCL", 3: "NCHW"}.get(len(shape), "NC" + "DHW"[-(len(shape) - 1) :])


def _checked(card: ModelCard, where: str) -> ModelCard:
    """A card whose fields fit each other."""
    if card.card > CARD_VERSION:
        raise ModelError(
            f"{where}: its model card has version {card.card}, this edgestill reads {CARD_VERSION}; update"
        )
    if card.class_names and len(card.class_names) != card.classes:
        raise ModelError(f"{where}: {len(card.class_names)} class names for {card.classes} classes; export it again")
    given = card.input
    for numbers in (given.mean, given.std):
        if numbers is not None and len(numbers) not in (1, given.shape[0]):
            raise ModelError(f"{where}: {len(numbers)} numbers of mean or std for inputs of {given.shape}")
    if given.std is not None and 0 in given.std:
        raise ModelError(f"{where}: a std of 0; export it again")
    return card


def _builtins(card: ModelCard) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(card)
    return fields
