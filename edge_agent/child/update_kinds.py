"""Contents of an update by kind, and the state that the device keeps for the next round.

state      all tensors
delta      the difference to the received model in few bits; its rounding error, the residual, stays
predictor  the predictor's tensors; the extractor stays, and the next round continues from it
onnx       the trained model as a graph
logits     no model: only FedDistill's logits by label; the whole model stays
none       no tensor at all, only counts and metrics; the whole model stays

If the job requests logits by label, they are also sent with a state or a predictor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import torch
from numpy.typing import NDArray

from core.errors import ConfigError, EdgestillError, ModelError
from edge_agent.state.folders import DAMAGED, set_aside
from edge_agent.state.store import EXTRACTOR, KEEPING, LABEL_LOGITS, PERSONAL, RESIDUAL, learned_path
from models.roles import merge_state, slice_state
from models.split import Prototype
from quant.delta import encode_delta
from quant.pack import pack_state, unpack
from wire.tensors import Tensor, decode, encode
from wire.tensors.packed import Packed

__all__ = ["Made", "check_kept", "make_update", "read_kept", "share", "start_state", "with_own"]


@dataclass(frozen=True, slots=True)
class Made:
    """The body of an update, and files to keep on the device by name."""

    body: bytes
    keep: Mapping[str, bytes]


def start_state(kind: str, published: bytes, extractor: Path) -> bytes:
    """The initial tensors of training: the published ones, with the device's own extractor if it keeps one."""
    return with_own(kind, published, read_kept(extractor)) if kind in KEEPING else published


def with_own(kind: str, published: bytes, own: Mapping[str, Tensor] | None) -> bytes:
    """The published tensors, overridden by those the device keeps: its extractor or, if no model is shared, its
    model."""
    if own is None:
        return published
    try:
        own = slice_state(own, "extractor") if kind == "predictor" else own
        return encode(merge_state(decode(published), own))
    except ModelError:
        return published  # it is of another shape: the fleet has changed its latent width or its input


def make_update(
    kind: str,
    model: Prototype,
    packed: Mapping[str, Tensor],
    *,
    published: bytes,
    residual: Path,
    bits: int | None,
    example: torch.Tensor,
    extra: Mapping[str, Tensor] = MappingProxyType({}),
) -> Made:
    """`packed` is the trained model as returned by `local_update`; `extra` tensors are sent along but are not part of
    the model."""
    if kind not in ("delta", "onnx"):
        return share(kind, model, packed, extra)
    if extra:
        raise ConfigError(
            f"logits by label cannot be sent with a {kind} update; set update to state, predictor or logits"
        )
    if kind == "delta":
        return _delta(model, published, residual, bits)
    from quant.onnx.export import export_onnx  # 27 MB, needed by few fleets

    return Made(export_onnx(model, example).data, {})


def share(
    kind: str, model: Prototype, packed: Mapping[str, Tensor], extra: Mapping[str, Tensor], *, checksum: bool = True
) -> Made:
    """Kinds that need only the trained model; simulated devices build their updates here too."""
    match kind:
        case "state":
            return Made(encode({**packed, **extra}, checksum=checksum), {})
        case "predictor":
            own = slice_state(pack_state(model.state_dict(), floats="fp32"), "extractor")
            sent = {**slice_state(packed, "predictor"), **extra}
            return Made(encode(sent, checksum=checksum), {EXTRACTOR: encode(own)})
        case "logits":
            if not extra:
                raise ConfigError("an update of only logits, but the job requests none; use recipe feddistill")
            return Made(encode(extra, checksum=checksum), _whole(model))
        case "none":
            return Made(encode({}, checksum=checksum), _whole(model))
    raise ConfigError(f"unknown kind of update {kind!r}; known: state delta predictor onnx logits none")


def _whole(model: Prototype) -> dict[str, bytes]:
    """The model from which the next round continues, if none is shared."""
    return {EXTRACTOR: encode(pack_state(model.state_dict(), floats="fp32"))}


def _delta(model: Prototype, published: bytes, residual: Path, bits: int | None) -> Made:
    if bits is None:
        raise ConfigError("a delta update without a number of bits; set delta_bits in [update]")
    new = cast("dict[str, NDArray[Any]]", pack_state(model.state_dict(), floats="fp32"))
    base = {name: value.numpy() for name, value in unpack(decode(published)).items()}
    kept = read_kept(residual)
    left = None if kept is None else {n: t for n, t in kept.items() if not isinstance(t, Packed)}
    if left is not None and any(name not in new or value.shape != new[name].shape for name, value in left.items()):
        left = None  # of another model
    tensors, rest = encode_delta(new, base, left, bits)
    return Made(encode(tensors), {RESIDUAL: encode(rest)})


def check_kept(root: Path, prototype: str, tell: Callable[..., None]) -> None:
    """Set aside unreadable state of earlier rounds, with a warning; the work continues without it."""
    for what in (RESIDUAL, EXTRACTOR, LABEL_LOGITS, PERSONAL):
        path = learned_path(root, prototype, what)
        if path.exists() and read_kept(path) is None:
            tell("warning", text=f"{path}: damaged; set aside in {DAMAGED}/; starting over")
            set_aside(root, path, "damaged")


def read_kept(path: Path) -> dict[str, Tensor] | None:
    """Tensors kept on the device; None if there are none, or they cannot be read."""
    try:
        return decode(path.read_bytes())
    except (OSError, EdgestillError):
        return None
