"""What goes up, by kind of update, and what stays on the device for the next round.

state      all tensors
delta      the difference to the received model in few bits; its rounding error, the residual, stays
predictor  the predictor's tensors; the extractor stays, and the next round goes on from it
onnx       the trained model as a graph
logits     no model: FedDistill's logits by label alone; the whole model stays
none       no tensor at all, only counts and metrics; the whole model stays

Logits by label, where the job asks for them, go up with a state or a predictor too.
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
    """The tensors that training starts from: the published ones, under the device's own extractor if it keeps one."""
    return with_own(kind, published, read_kept(extractor)) if kind in KEEPING else published


def with_own(kind: str, published: bytes, own: Mapping[str, Tensor] | None) -> bytes:
    """The published tensors under those that the device has kept: its extractor or, where none is shared, its model."""
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
    """`packed` is the trained model as `local_update` gives it; `extra` goes up with it and is no part of it."""
    if kind not in ("delta", "onnx"):
        return share(kind, model, packed, extra)
    if extra:
        raise ConfigError(f"logits by label cannot go with a {kind} update; set update to state, predictor or logits")
    if kind == "delta":
        return _delta(model, published, residual, bits)
    from quant.onnx.export import export_onnx  # 27 MB, and few fleets send graphs

    return Made(export_onnx(model, example).data, {})


def share(
    kind: str, model: Prototype, packed: Mapping[str, Tensor], extra: Mapping[str, Tensor], *, checksum: bool = True
) -> Made:
    """Kinds that need nothing but the trained model; simulated devices make their updates here too."""
    match kind:
        case "state":
            return Made(encode({**packed, **extra}, checksum=checksum), {})
        case "predictor":
            own = slice_state(pack_state(model.state_dict(), floats="fp32"), "extractor")
            sent = {**slice_state(packed, "predictor"), **extra}
            return Made(encode(sent, checksum=checksum), {EXTRACTOR: encode(own)})
        case "logits":
            if not extra:
                raise ConfigError("an update of logits alone, but the job asks for none; use recipe feddistill")
            return Made(encode(extra, checksum=checksum), _whole(model))
        case "none":
            return Made(encode({}, checksum=checksum), _whole(model))
    raise ConfigError(f"unknown kind of update {kind!r}; known: state delta predictor onnx logits none")


def _whole(model: Prototype) -> dict[str, bytes]:
    """The model to go on from in the next round, where none is shared."""
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
    """Set aside what the device has kept of earlier rounds and cannot be read, and say so; the work goes on without."""
    for what in (RESIDUAL, EXTRACTOR, LABEL_LOGITS, PERSONAL):
        path = learned_path(root, prototype, what)
        if path.exists() and read_kept(path) is None:
            tell("warning", text=f"{path}: damaged; set aside in {DAMAGED}/, and begun anew")
            set_aside(root, path, "damaged")


def read_kept(path: Path) -> dict[str, Tensor] | None:
    """Tensors kept on the device; None if there are none, or none that can be read."""
    try:
        return decode(path.read_bytes())
    except (OSError, EdgestillError):
        return None
