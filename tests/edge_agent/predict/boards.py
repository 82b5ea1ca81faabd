"""Model files as an agent leaves them, for the tests of what applications do with them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from models.card import InputCard, ModelCard
from quant.onnx.graph_check import dump_graph
from quant.onnx.metadata import write_metadata
from quant.onnx.raw import raw_graph
from wire.ids import digest_of

NAMES = ("ant", "bee", "cat")
SHAPE = (3, 4, 2)  # channels, height, width: no two alike
MEAN, STD = (100.0, 110.0, 120.0), (50.0, 60.0, 70.0)


def tiny_graph(favourite: int = 0, shape: tuple[int, ...] = SHAPE) -> bytes:
    """The mean of each channel as a logit, and one more for the favourite class."""
    channels = shape[0]
    bias = np.zeros(channels, np.float32)
    bias[favourite] = 1.0
    nodes = [
        helper.make_node("Flatten", ["input"], ["flat"], axis=1),
        helper.make_node("Gemm", ["flat", "predictor.weight", "predictor.bias"], ["logits"], transB=1),
    ]
    weight = np.kron(np.eye(channels), np.full((1, int(np.prod(shape[1:]))), 1 / np.prod(shape[1:]))).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", *shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", channels])],
        [_tensor("predictor.weight", weight), _tensor("predictor.bias", bias)],
    )
    return dump_graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))


def _tensor(name: str, array: NDArray[np.float32]) -> TensorProto:
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape, raw_data=array.tobytes())


def tiny_card(*, raw: bool = True, **other: object) -> ModelCard:
    given = InputCard(dtype="uint8" if raw else "float32", layout="NCHW", shape=SHAPE, mean=MEAN, std=STD, inside=raw)
    facts = {
        "prototype": "tiny:fp32",
        "precision": "fp32",
        "classes": 3,
        "class_names": NAMES,
        "input": given,
        "output": "probabilities" if raw else "logits",
        "fleet": "f",
        "device": "pi-1",
        "round": 1,
        "accuracy": 0.75,
        "accuracy_samples": 8,
    }
    return ModelCard(**(facts | other))


def leave_model(folder: Path, favourite: int = 0, *, raw: bool = True, **other: object) -> ModelCard:
    """current.onnx and current.json in a folder, each by one rename; the card."""
    card = tiny_card(raw=raw, **other)
    graph = tiny_graph(favourite)
    if raw:
        graph = raw_graph(graph, MEAN, STD)
    graph = write_metadata(graph, card.to_metadata(), producer="edgestill")
    card = msgspec.structs.replace(card, file="current.onnx", sha256=digest_of(graph))
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (("current.onnx", graph), ("current.json", card.to_json().encode())):
        (folder / f".{name}").write_bytes(data)
        (folder / f".{name}").rename(folder / name)
    return card


def images(n: int = 5) -> NDArray[np.uint8]:
    """Random bytes; image i is brightest in channel i % 3, by far."""
    x = np.random.default_rng(0).integers(0, 20, (n, *SHAPE), dtype=np.uint8)
    x[np.arange(n), np.arange(n) % 3] += 230
    return x
