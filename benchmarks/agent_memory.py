"""Memory of an agent: idle, and of its training child by prototype, in full and in light mode.

    python benchmarks/agent_memory.py [--json] [--quick] [--prototypes cnn:w1,resnet8:fp32] [--light cnn:fp32]

A real agent process, connected to a Mosquitto, and real training children: 10 steps on 3x32x32 images, packing,
sealing and the ONNX export included. A light child has no torch: its extractor is the published one in an ONNX graph,
its predictor NumPy.
Figures are peaks of resident memory (VmHWM), in MB. `--quick`: one small prototype, in full and light.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _machine import Mosquitto, peak_mb
from _quick import add_quick

from core.processes.process import environment
from core.toml_writer import toml_text
from edge_agent.child.request import Request
from edge_agent.child.supervisor import Child
from edge_agent.state.store import Store
from models.build import build
from models.roles import EXTRACTOR_ROUND
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.pack import pack_state
from wire.envelope import seal
from wire.headers import encode_model
from wire.ids import AGGREGATOR, digest_of
from wire.keys import Ed25519PrivateKey, generate_key, public_key_hex, save_private_key
from wire.messages import Hyper, ModelHeader
from wire.tensors import encode

FLEET, DEVICE, SHAPE, CLASSES, LATENT = "bench", "board", (3, 32, 32), 10, 64
PROTOTYPES = "mlp:fp32,cnn:fp32,cnn:w1,resnet8:fp32,resnet8:w1,resnet8:w8a8"


def write_board(folder: Path, key: Ed25519PrivateKey, port: int) -> None:
    """Samples, key and config of a board."""
    rng = np.random.default_rng(0)
    np.savez(folder / "samples.npz", x=rng.normal(size=(640, *SHAPE)).astype(np.float32), y=np.arange(640) % CLASSES)
    save_private_key(generate_key(), folder / "device.pem")
    tables = {
        "agent": {"fleet": FLEET, "device": DEVICE, "state_dir": "idle"},
        "broker": {"port": port},
        "keys": {"private": "device.pem", "aggregator": public_key_hex(key.public_key())},
        "model": {"prototype": "cnn:w1"},
        "data": {"path": "samples.npz"},
    }
    (folder / "agent.toml").write_text(toml_text(tables))


def idle_mb(folder: Path) -> float:
    """Memory of an agent that has connected and is idle."""
    command = [sys.executable, "-m", "edgestill", "agent", "run", "--config", str(folder / "agent.toml")]
    log = folder / "agent.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=environment(threads=None), stdin=subprocess.DEVNULL, stderr=said)
    until = time.monotonic() + 60
    try:
        while "connected to" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the agent does not connect: {log.read_text(errors='replace')[-300:]}")
            time.sleep(0.1)
        time.sleep(1)
        return peak_mb(process.pid)
    finally:
        process.terminate()
        process.wait(10)


def training(
    folder: Path, prototype: str, key: Ed25519PrivateKey, batch: int, *, light: bool = False
) -> dict[str, float]:
    """Peak memory and seconds of a training child, from start to end."""
    arch, precision = parse_prototype(prototype)
    model = build(PrototypeSpec(arch, precision, SHAPE, CLASSES, LATENT), generator=torch.Generator().manual_seed(0))
    header = ModelHeader(
        round=1,
        prototype=prototype,
        input_shape=SHAPE,
        classes=CLASSES,
        latent=LATENT,
        recipe="fedavg",
        metrics={EXTRACTOR_ROUND: 1.0},
    )
    payload = encode_model(header, encode(pack_state(model.state_dict())))
    sealed = seal(payload, key=key, kind="model", sender=AGGREGATOR, fleet=FLEET)
    state = folder / f"{prototype.replace(':', '-')}{'-light' if light else ''}"
    Store(state, prototype=prototype).close()
    (state / "model").write_bytes(sealed)
    if light:
        export_onnx(model, torch.zeros(2, *SHAPE), state / "graph.onnx")
    request = Request(
        parent=os.getpid(),
        key="0000000001-00",
        state_dir=str(state),
        fleet=FLEET,
        device=DEVICE,
        private_key=str(folder / "device.pem"),
        aggregator=public_key_hex(key.public_key()),
        prototype=prototype,
        model=str(state / "model"),
        base=digest_of(sealed),
        data=str(folder / "samples.npz"),
        validation=0.0,
        refuse_worse=False,
        floats="fp16" if precision.quantized else "fp32",
        threads=1,
        nice=0,
        memory_mb=None,
        round=1,
        hyper=Hyper(batch_size=batch, lr=0.01, steps=10),
        update="predictor" if light else "state",
        graph=str(state / "graph.onnx") if light else None,
    )
    start = time.monotonic()
    child = Child(request, max_seconds=300, now=start, wake=lambda: None)
    while (ended := child.poll(time.monotonic())) is None:
        time.sleep(0.02)
    if ended.facts is None:
        raise SystemExit(f"{prototype}: {ended.reason}")
    return {"peak_mb": round(ended.facts["memory_mb"]), "seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_quick(parser)
    parser.add_argument("--prototypes", default=PROTOTYPES)
    parser.add_argument("--light", default="cnn:fp32,cnn:w1,resnet8:fp32", help="prototypes of light children")
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    if args.quick:
        args.prototypes = args.light = "mlp:fp32"
    key = generate_key()
    with tempfile.TemporaryDirectory(prefix="edgestill-memory-") as name, Mosquitto(Path(name)) as broker:
        folder = Path(name)
        write_board(folder, key, broker.port)
        idle = round(idle_mb(folder), 1)
        rows = {p: training(folder, p, key, args.batch) for p in args.prototypes.split(",") if p}
        light = {p: training(folder, p, key, args.batch, light=True) for p in args.light.split(",") if p}
    print(f"idle agent      {idle:.1f} MB")
    for prototype, row in rows.items():
        print(
            f"{prototype:18s} training child, batch {args.batch}: peak {row['peak_mb']:.0f} MB, {row['seconds']:.1f} s"
        )
    for prototype, row in light.items():
        print(f"{prototype:18s} light child, batch {args.batch}: peak {row['peak_mb']:.0f} MB, {row['seconds']:.1f} s")
    if args.json:
        print(json.dumps({"idle_mb": idle, "batch": args.batch, "training": rows, "light": light}))


if __name__ == "__main__":
    main()
