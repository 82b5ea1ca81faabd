"""Which extractor a light device uses: the fleet's newest, or the one that it has. Imports no torch.

    fleet   the published model's weights in the graph of the kit
    kept    the last such graph, which the device keeps in learned/
    kit     the file of `[model] graph` as it is

A published model names the last round that changed its extractor (`models/roles.py:EXTRACTOR_ROUND`). Without one the
fleet has trained no extractor: no round is over, or devices share only predictors and keep extractors of their own. The
published extractor is then a random one, and the kit's, which may be trained elsewhere, is used. Otherwise:

    refresh    a job           an offer
    always     fleet           fleet
    offers     kept, else kit  fleet
    never      kit             kit

A graph that cannot be used is reported, and the next of fleet, kept and kit is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.errors import ConfigError, ModelError
from quant.onnx.graph_check import parse_graph
from quant.onnx.slots import find_slots
from quant.onnx.weights import patch_weights
from quant.precision import Precision
from wire.tensors import Tensor

__all__ = ["Graphs", "Source", "refreshed"]

Source = Literal["fleet", "kept", "kit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """The graphs that a light device may use for one piece of work."""

    kit: Path
    kept: Path
    refresh: str
    is_job: bool
    fleet_trained: bool  # whether the fleet has trained the published extractor

    def sources(self) -> Iterator[Source]:
        """Which of them to use, in order of preference."""
        if self.fleet_trained and self.refresh != "never":
            if self.refresh == "always" or not self.is_job:
                yield "fleet"
            if self.kept.exists():
                yield "kept"
        yield "kit"

    def read(self, source: Source, published: Mapping[str, Tensor], precision: Precision) -> bytes:
        """The whole prototype's graph from that source; `ModelError` if there is none that can be used."""
        if source == "kept":
            try:
                return self.kept.read_bytes()
            except OSError as error:
                raise ModelError(error.strerror or str(error)) from None
        try:
            kit = self.kit.read_bytes()
        except OSError as error:
            raise ConfigError(f"[model] graph: {self.kit}: {error.strerror or error}") from None
        return kit if source == "kit" else refreshed(kit, published, precision)


def refreshed(graph: bytes, published: Mapping[str, Tensor], precision: Precision) -> bytes:
    """`graph` with all weights of a published model, quantized where the graph stores levels."""
    bits = precision.weight_bits
    if bits is not None and not any(slot.bits == bits for slot in find_slots(parse_graph(graph))):
        raise ModelError(f"the graph stores no weight in {bits} bits; export it with edgestill model export")
    return patch_weights(graph, published, quantize=True)
