"""The loop of a worker process, which inherits devices, data and models from the simulation by fork.

It handles one frame after another and exits when the simulation closes its pipe or dies. It holds no state of devices:
their local state returns with the update, so any other worker can take over.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import torch

from aggregator.fusion.process_pool import call
from core.errors import EdgestillError
from fleet.engines.channel import Channel, Frame
from fleet.engines.heap import keep_freed_memory
from fleet.engines.work import Bench
from fleet.simulation.round_message import Artifact, News, PublishedSideArtifact
from wire.messages import ModelHeader

__all__ = ["FAULTS", "fault_text", "obey", "run"]

#: Errors that abort the run with one line; any other error ends the worker.
FAULTS = (EdgestillError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
Send = Callable[[str, dict[str, Any], list[bytes]], None]


def run(bench: Bench, channel: Channel) -> NoReturn:
    """Serve until the simulation is gone, then exit; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the simulation handles Ctrl-C
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        gc.freeze()  # a GC pass would write to pages shared with the simulation
        torch.set_num_threads(1)
        keep_freed_memory()
        _serve(bench, channel)
    except (EOFError, BrokenPipeError):
        code = 0
    finally:
        os._exit(code)  # skip the simulation's exit handlers


def _serve(bench: Bench, channel: Channel) -> NoReturn:
    held: dict[str, Artifact] = {}
    while True:
        frame = channel.receive()
        try:
            obey(frame, bench, held, channel.send)
        except FAULTS as error:
            channel.send("error", {"text": fault_text(error)})
        finally:
            frame.release()


def fault_text(error: BaseException) -> str:
    """The error in one line."""
    return str(error) if isinstance(error, EdgestillError) else f"internal error: {type(error).__name__}: {error}"


def obey(frame: Frame, bench: Bench, held: dict[str, Artifact], send: Send) -> None:
    """Handle a frame and `send` its answer, if it has one; `held` are the artifacts by digest."""
    kind, facts, blobs, _ = frame
    match kind:
        case "hold":
            for digest in held.keys() - set(facts["keep"]):
                del held[digest]
            new = zip(facts["new"], blobs, strict=True)
            held.update({digest: Artifact.known(digest, bytes(blob)) for digest, blob in new})
        case "compute":
            bench.device = torch.device(facts["device"])
        case "round":
            bench.open(_news(facts, held))
        case "train":
            remaining = iter(blobs)
            kept = [{name: bytes(next(remaining)) for name in names} for names in facts["kept"]]
            for answer in bench.train(list(zip(facts["devices"], kept, strict=True))):
                message = b"" if answer.message is None else answer.message
                report = {
                    "kept": list(answer.kept),
                    "reason": answer.reason,
                    "train_s": answer.train_s,
                    "encode_s": answer.encode_s,
                }
                send("answer", report, [message, *answer.kept.values()])
        case "call":
            send("called", {"answer": call(facts["call"], facts["request"])}, [])
        case "score":
            state = held[facts["state"]]
            tally = bench.score(facts["prototype"], state, facts["first"], facts["last"], quantized=facts["quantized"])
            send("tally", {"tally": tally}, [])


def _news(facts: dict[str, Any], held: dict[str, Artifact]) -> News:
    side_artifact = None
    if facts["side_artifact"] is not None:
        header = msgspec.convert(facts["side_artifact"]["header"], ModelHeader)
        side_artifact = PublishedSideArtifact(header, held[facts["side_artifact"]["digest"]])
    return News(
        round_number=facts["round_number"],
        published={name: held[digest] for name, digest in facts["published"].items()},
        update=facts["update"],
        extra=facts["extra"],
        side_artifact=side_artifact,
    )
