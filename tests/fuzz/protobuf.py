"""ONNX graphs, mutated field by field through protobuf's own descriptions of them."""

from __future__ import annotations

import random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor

__all__ = ["mutate_graph"]

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 13, 18, 25, 26, 70, 127, 255, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 1e38, 3.4e38, float("nan"), float("inf"), 1e-45)
TEXTS = (
    "",
    "x",
    "x" * 300,
    "\x1b[31m",
    "ai.onnx",
    "com.microsoft",
    "If",
    "Loop",
    "Add",
    "DequantizeLinear",
    "Constant",
)
TEXTS = (*TEXTS, "w:q1", ":q1", "predictor.weight", "predictor.weight:q1", "label-logits", "../../../etc/passwd")
BYTES = (b"", b"\0", b"\0" * 4, b"\xff" * 64, b"\0\0\xc0\x7f", b"\xff\xff\x7f\x7f", b"location\0/etc/passwd")
#: Raw pieces: an unknown group, a length beyond the end, text that is not UTF-8, nested types without end.
RAW = (
    b"\x0b",
    b"\x3a\xff\xff\xff\xff\x0f",
    b"\x3a\x04\x12\x02\xff\xfe",
    b"\xff" * 12,
    b"\x3a\x02\x2a\x00",
    b"\x08\x80",
)


def mutate_graph(rng: random.Random, data: bytes) -> bytes:
    """The graph in `data` after one to three changes."""
    model = onnx.ModelProto.FromString(data)
    if rng.random() < 0.2 and model.graph.initializer:
        _mutate_shape(rng, rng.choice(model.graph.initializer))
    else:
        for _ in range(rng.choice([1, 1, 2, 3])):
            message, described = rng.choice(_fields(model))
            _mutate(rng, message, described)
    try:
        mutant: bytes = model.SerializeToString()
    except Exception:  # protobuf does not write it: half of the graph is a case too
        mutant = data[: len(data) // 2]
    if rng.random() < 0.1:
        at = rng.choice([0, len(mutant), rng.randrange(len(mutant) + 1)])
        mutant = mutant[:at] + rng.choice([*RAW, b"\x0a" + b"\x81\x01" * 200]) + mutant[at:]
    return mutant


def _mutate_shape(rng: random.Random, tensor: onnx.TensorProto) -> None:
    """Another shape for as many bytes; or one of no values, whose other dimensions are absurd."""
    if rng.random() < 0.5:
        at = rng.randrange(len(tensor.dims) + 1)
        tensor.dims[:] = [*tensor.dims[:at], *[1] * rng.choice([1, 6, 9, 32, 64, 70, 3000]), *tensor.dims[at:]]
    else:
        tensor.dims[:] = rng.sample([0, *rng.choices([1, 2**31, 2**40, 2**62], k=rng.choice([1, 2, 70]))], k=2)
        tensor.dims.append(0)
        tensor.raw_data = b""


def _fields(message: Any) -> list[tuple[Any, FieldDescriptor]]:
    """Every field of the message and of those within it; tensors are often what matters, and come twice."""
    found = [(message, described) for described in message.DESCRIPTOR.fields]
    if isinstance(message, onnx.TensorProto):
        found = [*found, *[(message, d) for d in message.DESCRIPTOR.fields if d.name in ("dims", "data_type")] * 4]
    for described, value in message.ListFields():
        if described.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if _many(described) else [value]:
                found += _fields(inner)
    return found


def _many(described: FieldDescriptor) -> bool:
    repeated = getattr(described, "is_repeated", None)
    return bool(described.label == FieldDescriptor.LABEL_REPEATED) if repeated is None else bool(repeated)


def _mutate(rng: random.Random, message: Any, described: FieldDescriptor) -> None:
    if rng.random() < 0.15:
        message.ClearField(described.name)
    elif described.type == FieldDescriptor.TYPE_MESSAGE:
        _mutate_message(rng, message, described)
    elif _many(described):
        _mutate_repeated(rng, getattr(message, described.name), described)
    else:
        try:
            setattr(message, described.name, _value(rng, described))
        except (ValueError, TypeError):
            message.ClearField(described.name)


def _mutate_message(rng: random.Random, message: Any, described: FieldDescriptor) -> None:
    if not _many(described):
        getattr(message, described.name).SetInParent()
        return
    items = getattr(message, described.name)
    if len(items) and rng.random() < 0.7:
        for _ in range(rng.choice([1, 1, 3])):
            items.add().CopyFrom(rng.choice(list(items)[:-1] or list(items)))
        if rng.random() < 0.4:
            del items[rng.randrange(len(items))]
    else:
        items.add()


def _mutate_repeated(rng: random.Random, items: Any, described: FieldDescriptor) -> None:
    try:
        match rng.choice(["append", "many", "change", "drop", "zero"]):
            case "append":
                items.append(_value(rng, described))
            case "many":
                items.extend([_value(rng, described)] * rng.choice([9, 33, 70, 3000]))
            case "change" if len(items):
                items[rng.randrange(len(items))] = _value(rng, described)
            case "drop" if len(items):
                del items[rng.randrange(len(items))]
            case "zero":
                items.extend([_value(rng, described), _value(rng, described), _value(rng, described)])
    except (ValueError, TypeError):
        del items[:]


def _value(rng: random.Random, described: FieldDescriptor) -> Any:
    kind = described.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return rng.choice(BYTES) if described.type == FieldDescriptor.TYPE_BYTES else rng.choice(TEXTS)
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice([0, 1, 2, 3, 8, 11, 16, 22, 25, 26, 99])
    return rng.choice(INTEGERS)
