"""Weights in an ONNX file by their state-dict names: read, replaced, stored compactly. Imports no torch.

`quant/onnx/slots.py` defines how a weight is stored in a graph.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from core.errors import ModelError, did_you_mean
from quant.onnx.graph_check import DEFAULT_DOMAINS, GraphLimits, check_graph, dump_graph, parse_graph
from quant.onnx.integers.lowbit import LowBits, Storage, default_low_bits, levels_of, levels_tensor, storage_for
from quant.onnx.slots import dequantize_nodes, find_slots, packed_initializers
from wire.tensors import Packed, Tensor

__all__ = ["EXPORT_OPSET", "compact_weights", "convert_low_bits", "patch_weights", "read_weights"]

#: The opset that `quant/onnx/export.py` writes. From it to opset 25 its operators changed only in the types that they
#: accept, so the number can be raised and lowered without changing a node.
EXPORT_OPSET, EXPORT_IR = 18, 8


def read_weights(data: bytes, limits: GraphLimits | None = None) -> dict[str, Tensor]:
    """Every weight of a checked graph by name: arrays, and `Packed` where the graph holds levels."""
    weights: dict[str, Tensor] = {}
    for slot in find_slots(check_graph(data, limits)):
        if slot.name in weights:
            raise ModelError(f"weight {slot.name!r} is twice in the ONNX graph")
        weights[slot.name] = slot.read()
    return weights


def patch_weights(
    template: bytes, tensors: Mapping[str, Tensor], *, partial: bool = False, quantize: bool = False
) -> bytes:
    """`template` with other weights; the exporter and torch are not needed.

    Names and shapes must be the template's, all of them unless `partial`. float16 arrays fit float32 weights, and a
    `Packed` fits a float weight (its values are stored). With `quantize`, an array also fits a weight stored as levels:
    a published model has full precision, and its quantized layers quantize it in forward (`quant/levels.py`).
    BatchNorm's `num_batches_tracked`, which no graph has, is ignored.
    """
    model = parse_graph(template)
    slots = {slot.name: slot for slot in find_slots(model)}
    given = {name: value for name, value in tensors.items() if not name.endswith("num_batches_tracked")}
    for name in given:
        if name not in slots:
            raise ModelError(f"weight {name!r} is not in the ONNX template{did_you_mean(name, slots)}")
    if not partial and (missing := [name for name in slots if name not in given]):
        raise ModelError(f"weight {missing[0]!r} of the ONNX template is not given ({len(missing)} missing)")
    for name, value in given.items():
        slots[name].write(value, quantize=quantize)
    return dump_graph(model)


def compact_weights(data: bytes, packed: Mapping[str, Packed], *, low_bits: LowBits | None = None) -> bytes:
    """`data` with the float32 initializers named in `packed` replaced by levels, scale and mean.

    1- and 2-bit levels are stored in `low_bits`: "int2" needs opset 25 (ONNX Runtime 1.31 runs it, 1.23 does not),
    "int4" opset 21; by default the narrowest that the ONNX Runtime of this machine runs. The opset and the IR version
    of the graph are raised only as far as needed.
    """
    model = parse_graph(data)
    floats = {t.name: t for t in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for name, weight in packed.items():
        if name not in floats:
            raise ModelError(f"weight {name!r} is not in the ONNX graph{did_you_mean(name, floats)}")
        if tuple(floats[name].dims) != weight.levels.shape:
            raise ModelError(f"weight {name!r} is {weight.levels.shape}, the ONNX graph has {tuple(floats[name].dims)}")
        storage = storage_for(weight.bits, low_bits or default_low_bits())
        model.graph.initializer.remove(floats[name])
        model.graph.initializer.extend(packed_initializers(name, weight, storage))
        nodes += dequantize_nodes(name, weight)
        _raise_versions(model, storage)
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return dump_graph(model)


def convert_low_bits(data: bytes, low_bits: LowBits) -> bytes:
    """A graph of `compact_weights` with its 1- and 2-bit levels stored in `low_bits`, for another ONNX Runtime.

    Narrower storage raises the opset, wider storage lowers it again: to what the levels need, not below the exporter's.
    """
    model = parse_graph(data)
    _opset(model).version, model.ir_version = EXPORT_OPSET, EXPORT_IR
    for slot in find_slots(model):
        if slot.bits is not None:
            storage = storage_for(slot.bits, low_bits)
            slot.levels.CopyFrom(levels_tensor(slot.levels.name, levels_of(slot.levels), storage))
            _raise_versions(model, storage)
    return dump_graph(model)


def _raise_versions(model: onnx.ModelProto, storage: Storage) -> None:
    opset = _opset(model)
    opset.version = max(opset.version, storage.opset)
    model.ir_version = max(model.ir_version, storage.ir)


def _opset(model: onnx.ModelProto) -> onnx.OperatorSetIdProto:
    found: onnx.OperatorSetIdProto
    for found in model.opset_import:
        if found.domain in DEFAULT_DOMAINS:
            return found
    raise ModelError("ONNX graph without operators of ai.onnx")
