"""The same work on every processor: digests of what must be equal, floats that may differ in the last place.

    python sums.py make FOLDER           trained states, latents and graphs, made once, on this machine
    python sums.py light FOLDER OUT      what a light board computes from them: NumPy and ONNX Runtime
    python sums.py full FOLDER OUT       what a full board does: torch, with the binary and Brevitas' layers

OUT.json has the digests by name, OUT.npz logits, latents, and what torch has summed: the scales and the means of packed
weights are means over a filter, and the order of a sum is the processor's.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

PROTOTYPES = ("cnn:fp32", "cnn:w1", "cnn:w8a8", "cnn:w4a4", "cnn:w2a2", "cnn:w1a1", "resnet8:w1")
TASK = {"input_shape": [1, 8, 8], "classes": 10, "latent": 16}


def make(folder: Path) -> None:
    """States after some steps of training, inputs, and the graph of one."""
    import torch

    from edge_agent.training.params import LocalTraining
    from edge_agent.training.sgd import train_local
    from quant.onnx.export import export_onnx
    from quant.pack import pack_state
    from wire.tensors import encode

    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 1, 8, 8, generator=drawn), torch.arange(64) % 10
    np.save(folder / "x.npy", x.numpy())
    for name in PROTOTYPES:
        model = _model(name)
        train_local(model, x, y, LocalTraining(lr=0.05, batch_size=16, steps=12, momentum=0.9), generator=drawn)
        (folder / f"{name}.state").write_bytes(encode(pack_state(model.state_dict(), floats="fp32")))
        if name == "cnn:w1":
            model.eval()
            (folder / "cnn.onnx").write_bytes(export_onnx(model, x[:4]).data)


def light(folder: Path) -> Iterator[tuple[str, bytes | np.ndarray[Any, Any]]]:
    """Wire bytes, deltas, a predictor's training, and graphs at every bit width."""
    from edge_agent.light.extractor import latents_of
    from edge_agent.light.predictor import LightPredictor
    from edge_agent.light.train import light_batches, train_predictor
    from edge_agent.training.params import LocalTraining
    from quant.delta import encode_delta
    from quant.onnx.session import open_session, run_graph
    from quant.onnx.split import extractor_graph
    from quant.onnx.weights import convert_low_bits, read_weights
    from wire.tensors import encode

    rng = np.random.default_rng(0)
    old = {"a": rng.standard_normal((64, 33)).astype(np.float32), "b": rng.standard_normal(10).astype(np.float32)}
    new = {name: v + np.float32(0.01) * rng.standard_normal(v.shape).astype(np.float32) for name, v in old.items()}
    yield "floats", encode(old)
    for bits in (8, 4, 2, 1):
        sent, left = encode_delta(new, old, None, bits=bits)
        yield f"delta of {bits} bits", encode(sent) + encode(left)
    z, y = rng.standard_normal((200, 16)).astype(np.float32), rng.integers(10, size=200)
    for binary in (False, True):
        weight = rng.standard_normal((10, 16)).astype(np.float32)
        predictor = LightPredictor(weight, np.zeros(10, np.float32), binary=binary)
        order = np.random.default_rng(2)
        how = LocalTraining(lr=0.05, batch_size=8, epochs=2, momentum=0.9)
        train_predictor(predictor, z, y, how, epoch=lambda order=order: light_batches(200, 8, order))
        yield f"update of a light board, binary {binary}", encode(predictor.pack("fp16"))
    graph, x = (folder / "cnn.onnx").read_bytes(), np.load(folder / "x.npy")
    yield "weights of the graph", encode(read_weights(graph))
    for kind in ("int2", "int4", "int8"):
        yield f"graph in {kind}", run_graph(open_session(convert_low_bits(graph, kind)), x)
    yield "latents", latents_of(extractor_graph(graph), x, 16)


def full(folder: Path) -> Iterator[tuple[str, bytes | np.ndarray[Any, Any]]]:
    """The update that a board packs from a state, and the logits of the model that it then has."""
    import torch

    from edge_agent.training.local_round import packed_update
    from quant.pack import load_packed
    from wire.tensors import Packed, decode, encode

    x = torch.from_numpy(np.load(folder / "x.npy"))
    for name in PROTOTYPES:
        model = _model(name)
        load_packed(model, decode((folder / f"{name}.state").read_bytes()))
        model.eval()
        for key, tensor in packed_update(model, floats="fp16").items():
            if isinstance(tensor, Packed):
                yield f"levels of {name} {key}", encode({"levels": tensor.levels})
                yield f"scale of {name} {key}", tensor.scale
                yield f"mean of {name} {key}", np.zeros(1) if tensor.mean is None else tensor.mean
            else:
                yield f"{name} {key}", encode({key: tensor})
        with torch.no_grad():
            yield f"logits of {name}", model(x).numpy()


def _model(name: str) -> Any:
    import torch

    from models.build import build
    from models.spec import PrototypeSpec

    torch.set_num_threads(1)
    spec = PrototypeSpec.from_json({"prototype": name, **TASK})
    return build(spec, generator=torch.Generator().manual_seed(1))


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "make":
        make(folder)
        return
    results = dict({"light": light, "full": full}[what](folder))
    digests = {name: hashlib.sha256(v).hexdigest() for name, v in results.items() if isinstance(v, bytes)}
    Path(f"{sys.argv[3]}.json").write_text(json.dumps(digests, indent=1))
    np.savez(f"{sys.argv[3]}.npz", **{name: v for name, v in results.items() if not isinstance(v, bytes)})


if __name__ == "__main__":
    main()
