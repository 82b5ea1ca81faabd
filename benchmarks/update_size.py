"""One update on the wire against the fp32 safetensors file of the same model, and the time that it takes.

    python benchmarks/update_size.py [--json] [--quick]

The update is the whole signed message that a device sends: envelope, header, tensors. The models are in their plain
form (no adapter), trained for a few steps, so that no tensor is trivially compressible. Ratios are keyed
`arch:precision` for `state` updates and `arch:predictor` for predictor-only ones of the fp32 prototype. Patching puts
the packed weights into the exported ONNX graph, as boards do in each round. `--quick`: the small CNN alone, timed
once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import safetensors.torch
import torch
from _quick import add_quick

from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from models.build import build
from models.roles import slice_state
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.onnx.export import export_onnx
from quant.onnx.freeze import packed_weights
from quant.onnx.weights import patch_weights
from quant.pack import pack
from wire.envelope import open_envelope, seal
from wire.headers import decode_update, encode_update
from wire.keys import generate_key
from wire.messages import UpdateHeader
from wire.tensors import Tensor, decode, encode

SHAPES = {"cnn": (1, 28, 28), "mlp": (1, 28, 28)}
STATES = ["resnet8:w1", "resnet20:w1", "cnn:w1", "mlp:w1"]
STATES += [f"resnet8:{precision}" for precision in ("w1a1", "w2a2", "w4a4", "w8a8", "fp32")]
PREDICTORS = ["cnn", "resnet8"]
TIMED, REPEATS = "resnet20:w1", 50
KEY = generate_key()


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    parameters: int
    fp32_bytes: int
    update_bytes: int
    ratio: float
    bits_per_parameter: float


def trained(name: str) -> Prototype:
    """A plain prototype after a few steps on noise."""
    arch, precision = parse_prototype(name)
    seed = torch.Generator().manual_seed(0)
    model = build(PrototypeSpec(arch, precision, SHAPES.get(arch, (3, 32, 32)), 10), generator=seed)
    x, y = model.example_input(32, generator=seed), torch.randint(10, (32,), generator=seed)
    train_local(model, x, y, LocalTraining(lr=0.01, batch_size=16, steps=3), generator=seed)
    return model.eval()


def message(tensors: Mapping[str, Tensor], kind: str, prototype: str) -> bytes:
    """The bytes that a device sends."""
    header = UpdateHeader(
        round=12,
        device="pi-07",
        prototype=prototype,
        update=kind,
        num_examples=600,
        label_counts=(60,) * 10,
        base="0" * 64,
        metrics={"train_loss": 0.5},
    )
    payload = encode_update(header, encode(tensors))
    return seal(payload, kind="update", sender="pi-07", round=12, fleet="bench", key=KEY)


def row(name: str, model: Prototype, tensors: Mapping[str, Tensor], kind: str) -> Row:
    state = {name: t.contiguous() for name, t in model.state_dict().items()}  # training uses channels-last layout
    fp32 = len(safetensors.torch.save(state))
    parameters = sum(p.numel() for p in model.parameters())
    size = len(message(tensors, kind, str(model.spec)))
    return Row(name, parameters, fp32, size, fp32 / size, 8 * size / parameters)


def median_ms(work: Callable[[], object], repeats: int) -> float:
    """Median CPU milliseconds: the figure least disturbed by other load."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    add_quick(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    states, predictors = (["cnn:w1"], ["cnn"]) if args.quick else (STATES, PREDICTORS)
    timed, repeats = ("cnn:w1", 1) if args.quick else (TIMED, REPEATS)

    rows = []
    for name in states:
        model = trained(name)
        rows.append(row(name, model, pack(model), "state"))
    for arch in predictors:
        model = trained(f"{arch}:fp32")
        rows.append(row(f"{arch}:predictor", model, slice_state(pack(model), "predictor"), "predictor"))

    model = trained(timed)
    data = message(pack(model), "state", timed)

    def receive() -> object:
        envelope = open_envelope(data, public_key=KEY.public_key(), fleet="bench")
        return decode(decode_update(envelope.payload)[1])

    tensors = pack(model)
    pack_ms = median_ms(lambda: pack(model), repeats)
    encode_ms = median_ms(lambda: message(tensors, "state", timed), repeats)
    decode_ms = median_ms(receive, repeats)
    template, weights = export_onnx(model, model.example_input(1)).data, packed_weights(model)
    patch_ms = median_ms(lambda: patch_weights(template, weights, partial=True), repeats)

    print(f"{'update':18s} {'parameters':>11s} {'fp32 file':>11s} {'update':>9s} {'smaller':>9s} {'bits/param':>11s}")
    for r in rows:
        print(
            f"{r.name:18s} {r.parameters:11,d} {r.fp32_bytes:11,d} {r.update_bytes:9,d} {r.ratio:8.1f}x "
            f"{r.bits_per_parameter:11.2f}"
        )
    print(f"\n{timed}, CPU milliseconds, median:")
    print(f"encode and sign {encode_ms:.2f}; verify and decode {decode_ms:.2f}; quantize and pack before {pack_ms:.2f}")
    print(f"patch the ONNX graph {patch_ms:.2f}")
    if args.json:
        ratios = {r.name: round(r.ratio, 2) for r in rows}
        facts = {
            **ratios,
            "encode_ms": round(encode_ms, 3),
            "decode_ms": round(decode_ms, 3),
            "pack_ms": round(pack_ms, 3),
            "patch_ms": round(patch_ms, 3),
        }
        print(json.dumps({**facts, "rows": [asdict(r) for r in rows]}))


if __name__ == "__main__":
    main()
