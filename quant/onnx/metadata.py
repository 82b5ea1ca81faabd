"""Properties of an ONNX file: texts by name, which every runtime can read. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from quant.onnx.graph_check import dump_graph, parse_graph

__all__ = ["read_metadata", "write_metadata"]


def write_metadata(data: bytes, properties: Mapping[str, str], *, producer: str = "", version: str = "") -> bytes:
    """`data` with exactly these properties, and the program that made it; everything else stays."""
    model = parse_graph(data)
    del model.metadata_props[:]
    for name, text in sorted(properties.items()):
        model.metadata_props.add(key=name, value=text)
    model.producer_name, model.producer_version = producer, version
    return dump_graph(model)


def read_metadata(data: bytes) -> dict[str, str]:
    """The properties of a file; of one that is there twice, the last."""
    return {entry.key: entry.value for entry in parse_graph(data).metadata_props}
