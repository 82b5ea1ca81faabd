"""The model for the application on the board, as three files in a folder. Imports no torch.

current.onnx          the graph, with its card as metadata; with [model] raw_input it normalizes its inputs itself
current.safetensors   the tensors of the model
current.json          the card, with the SHA-256 of current.onnx
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from core.files import write_atomic
from edge_agent.child.describe import card_of
from edge_agent.child.inputs import Assignment
from edge_agent.state.store import CURRENT
from models.card import ModelCard
from quant.onnx.metadata import write_metadata
from quant.onnx.raw import plain_graph, raw_graph, takes_tokens
from quant.onnx.targets import target_of_runtime
from quant.onnx.weights import convert_low_bits
from wire.ids import digest_of
from wire.tensors import Tensor, encode, to_safetensors

__all__ = ["write_current"]


def write_current(
    work: Assignment, graph: bytes, packed: Mapping[str, Tensor], metrics: Mapping[str, float]
) -> dict[str, float]:
    """Write graph, tensors and card; returns `{"refused": 1.0}` instead if the board's own model is better."""
    if work.request.refuse_worse and metrics.get("accuracy", 0.0) < metrics.get("accuracy_before", 0.0):
        return {"refused": 1.0}
    card = card_of(work, metrics, tokens=takes_tokens(graph))
    if work.request.runtime is not None:
        graph = convert_low_bits(graph, target_of_runtime(work.request.runtime).low_bits)
    graph = _as_described(graph, card)
    card = msgspec.structs.replace(card, file=CURRENT[0], sha256=digest_of(graph))
    files: tuple[bytes | str, ...] = (graph, to_safetensors(encode(packed)), card.to_json())
    for name, data in zip(CURRENT, files, strict=True):
        write_atomic(work.folder / name, data)
    return {}


def _as_described(graph: bytes, card: ModelCard) -> bytes:
    """The graph, raw or plain as the card says, with the card in it."""
    given = card.input
    if given.inside:
        assert given.mean is not None
        assert given.std is not None
        graph = raw_graph(graph, given.mean, given.std, dtype="uint8" if given.dtype == "uint8" else "float32")
    else:
        graph = plain_graph(graph)
    return write_metadata(graph, card.to_metadata(), producer="edgestill", version=card.edgestill)
