"""Checks of an update before it is stored, cheap ones first. Imports no torch.

    signature, sender, kind, round      of the envelope
    invited, in time, not counted yet   `judge` of the round engine
    replay                              the nonce was not accepted before
    header                              agrees with the envelope and the job
    decode, names and shapes, finite    of the tensors; an ONNX graph is read in a separate process
    dtypes and values                   `aggregator/tensor_checks.py`: an update that passes can be fused

Before that, the topic named a known device, and size and digest were checked (`aggregator/intake/transfers.py`). A
refusal is a `DeviceError` whose text is the answer to the device; a `RefusedError` has its own code, any other is
`UNSOUND`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aggregator.rounds.state import Verdict
from aggregator.tensor_checks import Published, check_extra, check_names, check_values
from core.errors import DeviceError, EdgestillError
from models.roles import split_extra
from quant.onnx.apart import read_apart
from wire.envelope import open_envelope
from wire.headers import decode_update
from wire.keys import Ed25519PublicKey
from wire.messages import UpdateHeader
from wire.refusals import RefusalReason, RefusedError
from wire.tensors import Limits, Tensor, decode

if TYPE_CHECKING:
    import torch

__all__ = ["Asked", "Checked", "check_update", "read_body", "read_state"]

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The job of the device in that round."""

    prototype: str
    model: str  # digest of the artifact to start from
    classes: int
    published: Published  # what that artifact holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An update that passed."""

    header: UpdateHeader
    nonce: bytes
    late: bool
    job: int = 0  # that it answers, in asynchronous rounds


def check_update(
    sealed: bytes,
    *,
    device: str,
    key: Ed25519PublicKey,
    fleet: str,
    judge: Callable[[int], Verdict],
    asked: Callable[[int], Asked | None],
    replayed: Callable[[bytes], bool],
) -> Checked:
    """The header of a valid update; `judge` and `asked` look up its round, `replayed` its nonce."""
    try:
        envelope = open_envelope(sealed, public_key=key, fleet=fleet, sender=device, kinds=("update",))
    except EdgestillError as error:
        raise DeviceError(str(error)) from None
    number = envelope.round
    verdict = judge(number)
    if verdict.refused is not None:
        raise RefusedError(verdict.refused, number=number)
    wanted = asked(number)
    if wanted is None:
        raise RefusedError(RefusalReason.NOT_INVITED, number=number)
    if replayed(envelope.nonce):
        raise RefusedError(RefusalReason.REPEATED)
    try:
        header, body = decode_update(envelope.payload)
        nonce = envelope.nonce
        del envelope  # keep as few copies of a large update as possible
        _check_header(header, device, number, wanted)
        tensors, extra = split_extra(read_body(header.update, body, wanted.published.shapes))
        del body
        check_names(tensors, wanted.published.shapes, header.update)
        check_values(tensors, wanted.published, wanted.prototype, header.update)
        check_extra(extra, header.update, wanted.classes)
    except EdgestillError as error:
        raise DeviceError(str(error)) from None
    return Checked(header=header, nonce=nonce, late=verdict.late, job=verdict.job)


def read_body(kind: str, body: bytes, shapes: Shapes) -> dict[str, Tensor]:
    """The tensors of an update of this kind; NaN and infinity are refused."""
    # twice the expected size: check_names reports a wrong shape, and a bomb of 1-bit levels is not unpacked
    values, count = sum(map(math.prod, shapes.values())), len(shapes)
    classes = shapes.get("predictor.bias", (0,))[0]  # logits by label are (C, C)
    limits = Limits(max_values=2 * values + 2 * classes**2 + 100, max_tensors=2 * count + 10)
    return read_apart(bytes(body), limits) if kind == "onnx" else decode(body, limits=limits)


def read_state(
    device: str, tensors: Mapping[str, Tensor], expected: Shapes, kind: str = "state"
) -> dict[str, torch.Tensor]:
    """The float32 state of an update; `DeviceError` names the tensor that does not fit `expected` (name: shape).

    Finiteness was checked when the message was decoded.
    """
    from quant.pack import unpack  # torch: only in the worker and in simulations

    try:
        check_names(tensors, expected, kind)
    except DeviceError as error:
        raise DeviceError(f"update from {device!r}: {error}") from None
    return unpack(tensors)


def _check_header(header: UpdateHeader, device: str, number: int, asked: Asked) -> None:
    if (header.device, header.round) != (device, number):
        raise DeviceError(f"the header is of {header.device!r}, round {header.round}, the envelope of round {number}")
    if header.prototype != asked.prototype:
        raise DeviceError(f"an update of prototype {header.prototype!r}, the job asked for {asked.prototype!r}")
    if header.base != asked.model and (header.base is not None or header.update == "delta"):
        # also a replayed update of a round with the same number before a backup was restored
        raise DeviceError(f"trained from model {str(header.base)[:12]}…, the job named {asked.model[:12]}…")
    if header.num_examples < 1:
        raise DeviceError("trained on 0 examples: there is nothing to weigh it by")
    if len(header.label_counts) not in (0, asked.classes):
        raise DeviceError(f"counts of {len(header.label_counts)} labels, the fleet has {asked.classes} classes")
    counted = sum(header.label_counts)  # noised or binned counts may sum to 0: an honest agent then reports 1 example
    if header.label_counts and header.num_examples != max(counted, 1):
        raise DeviceError(f"trained on {header.num_examples} examples, but its label counts sum to {counted}")
