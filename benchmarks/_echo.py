"""Replaces `edge_agent.child.full`: the update is the published model, unchanged.

Checks and signs like the training child.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from core.files import write_atomic
from edge_agent.child.request import Request
from edge_agent.state.folders import move, remove
from wire.envelope import open_envelope, seal
from wire.headers import decode_model, encode_update
from wire.ids import AGGREGATOR, digest_of
from wire.keys import load_private_key, public_key_from_hex
from wire.messages import UpdateHeader

__all__ = ["run"]


def run(request: Request, tell: object = None) -> dict[str, float]:
    """Write the update to the outbox; an offered model is installed unchanged."""
    root = Path(request.state_dir)
    folder = root / "staging" / request.key
    remove(folder)
    folder.mkdir(parents=True)
    if request.round is None:
        move(folder, root / "ready" / request.key)
        return {}
    started = time.monotonic()
    sealed = _echo(request, request.round)
    write_atomic(folder / "update", sealed)
    entry = {"round": request.round, "digest": digest_of(sealed), "size": len(sealed), "update": "state"}
    write_atomic(folder / "entry.json", json.dumps(entry))
    move(folder, root / "outbox" / request.key)
    return {"seconds": time.monotonic() - started, "train_loss": 0.0}


def _echo(request: Request, number: int) -> bytes:
    key = public_key_from_hex(request.aggregator)
    sealed = Path(request.model).read_bytes()
    envelope = open_envelope(sealed, public_key=key, fleet=request.fleet, sender=AGGREGATOR, kinds=("model",))
    _, tensors = decode_model(envelope.payload)
    header = UpdateHeader(
        round=number,
        device=request.device,
        prototype=request.prototype,
        update="state",
        num_examples=10,
        label_counts=(1,) * 10,
        base=request.base,
        metrics={"child_s": _age()},
    )
    payload = encode_update(header, tensors)
    own = load_private_key(request.private_key)
    return seal(payload, key=own, kind="update", sender=request.device, fleet=request.fleet, round=number)


def _age() -> float:
    """Seconds since this process was started, with the system's resolution of 10 ms."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / 100)
