"""The first model of a prototype, determined by seed and prototype; and its graph for light devices.

`python -m aggregator.worker.first_model` reads one JSON object from stdin, {"prototype": "cnn:w1", "input_shape":
[1, 8, 8], "classes": 10, "latent": 32, "seed": 0}, and writes the graph, ONNX, to stdout: for provisioning, which has
no torch in its own process. The graph has the weights that the aggregator publishes as the model of round 0.
"""

from __future__ import annotations

import json
import sys

import torch

from core.errors import EdgestillError
from core.processes.pipes import claim_stdout
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.onnx.export import export_onnx
from quant.pack import load_packed, pack_state, unpack
from wire.tensors import decode, encode

__all__ = ["first_graph", "first_model", "main", "wire_floats"]


def wire_floats(spec: PrototypeSpec) -> str:
    """The float dtype in which a prototype's state is published."""
    return "fp16" if spec.precision.quantized else "fp32"


def first_model(spec: PrototypeSpec, seed: int) -> tuple[Prototype, dict[str, torch.Tensor]]:
    """A new model, and its state."""
    model = build(spec, generator=torch_rng(seed, "init", str(spec)))
    return model, unpack(pack_state(model.state_dict(), floats="fp32"))


def first_graph(spec: PrototypeSpec, seed: int) -> bytes:
    """ONNX of the first model as it is published."""
    model, state = first_model(spec, seed)
    load_packed(model, decode(encode(pack_state(state, floats=wire_floats(spec)))))
    model.eval()
    return export_onnx(model, model.example_input(4, generator=torch.Generator().manual_seed(0))).data


def main() -> int:
    """Read a request, write its graph; the exit code."""
    answer = claim_stdout()
    torch.set_num_threads(1)
    asked = json.loads(sys.stdin.read())
    try:
        shape, latent = tuple(asked["input_shape"]), asked["latent"]
        spec = PrototypeSpec(*parse_prototype(asked["prototype"]), shape, asked["classes"], latent)
        answer.write(first_graph(spec, asked["seed"]))
        answer.flush()
    except EdgestillError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
