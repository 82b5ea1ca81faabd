"""Linear layers as MatMulNBits against plain ones: `python benchmarks/matmul_nbits.py [--json] [--quick]`.

A graph of one linear layer with 1-bit weights as `quant/onnx/integers/nbits.py` converts it (2 or 4 bits,
accuracy_level 4) and the same graph with weights that are dequantized once, when the session opens, so that it
multiplies in float32. One thread, ONNX Runtime; the variants take turns, and the fastest of each counts. The fast
kernels need a processor with dot-product instructions (VNNI on x86, SDOT on ARM). `--quick`: one small layer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _quick import add_quick
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).parents[1]))

from quant.onnx.graph_check import dump_graph
from quant.onnx.integers.nbits import to_nbits
from quant.onnx.session import open_session, run_graph
from quant.onnx.weights import compact_weights
from wire.tensors import Packed

SHAPES = [(1, 768, 768), (1, 768, 3072), (1, 1568, 512), (32, 768, 768)]  # rows, inputs, outputs
SECONDS, TURNS = 0.2, 5


def main() -> None:
    """Measure and print, with `--json` also as one object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    add_quick(parser)
    args = parser.parse_args()
    rows = [measured(*shape, quick=args.quick) for shape in ([(1, 128, 64)] if args.quick else SHAPES)]
    print(f"{'rows x inputs x outputs':24s} {'float':>9s} {'2 bits':>9s} {'4 bits':>9s}   us; speedup of 2 bits")
    for row in rows:
        times = " ".join(f"{row[name]:9.1f}" for name in ("float_us", "bits2_us", "bits4_us"))
        print(f"{row['shape']:24s} {times}   {row['float_us'] / row['bits2_us']:.2f}")
    if args.json:
        print(json.dumps({"rows": rows}))


def measured(rows: int, inputs: int, outputs: int, *, quick: bool) -> dict[str, Any]:
    """Microseconds of a call, by variant."""
    rng = np.random.default_rng(0)
    plain = graph(rng.choice(np.array([-1, 1], np.int8), (outputs, inputs)))
    variants = {
        "float_us": plain,
        "bits2_us": to_nbits(plain, low_bits=2).data,
        "bits4_us": to_nbits(plain, low_bits=4).data,
    }
    sessions = {name: open_session(data) for name, data in variants.items()}
    x = rng.normal(size=(rows, inputs)).astype(np.float32)
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(1 if quick else TURNS):
        for name, session in sessions.items():
            calls, begun = 0, time.perf_counter()
            while not calls or (not quick and time.perf_counter() - begun < SECONDS):
                run_graph(session, x)
                calls += 1
            best[name] = min(best[name], (time.perf_counter() - begun) / calls * 1e6)
    return {"shape": f"{rows} x {inputs} x {outputs}", **best}


def graph(levels: np.ndarray) -> bytes:
    """x W^T + b with W = 0.01 * level."""
    outputs, inputs = levels.shape
    weight = Packed(bits=1, levels=levels, scale=np.array(0.01, np.float16), mean=None)
    tensors = [
        helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.astype("<f4").tobytes(), raw=True)
        for name, array in (("w", weight.dequantize()), ("b", np.zeros(outputs, np.float32)))
    ]
    model = helper.make_graph(
        [helper.make_node("Gemm", ["input", "w", "b"], ["logits"], transB=1)],
        "layer",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", inputs])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", outputs])],
        tensors,
    )
    whole = helper.make_model(model, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return compact_weights(dump_graph(whole), {"w": weight})


if __name__ == "__main__":
    main()
