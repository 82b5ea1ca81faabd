"""The sandbox that reads ONNX graphs of devices: `python -m quant.onnx.sandbox`, started by `quant/onnx/apart.py`.

protobuf and onnx are large C++ libraries, and a graph is untrusted input. So they parse it in a process without
privileges: this one imports them once, has no network, and forks for every graph. The fork has limits on memory and
processor time, can open neither file nor socket, and exits after one answer. If it dies earlier, the graph is refused.

    in     u64 number of bytes, u32 seconds, then the graph
    out    u8 0 and the tensor message of its weights (`wire/tensors`), or 1 and the reason; before both, u64 length
"""

from __future__ import annotations

import gc
import os
import struct
import sys
import time
from typing import BinaryIO

from core.processes.pipes import claim_stdout, read_all, write_all
from core.processes.process import end_fork, signal_name
from core.processes.process_limits import (
    address_space,
    die_with_parent,
    limit_resources,
    no_network,
    no_new_files,
    no_new_privileges,
)

__all__ = ["HEAD", "LENGTH", "PATIENCE", "main"]

HEAD, LENGTH = struct.Struct("<QI"), struct.Struct("<Q")
MEMORY, MEMORY_PER_BYTE = 128 * 2**20, 16  # of address space, in addition to the libraries
PATIENCE = 5  # seconds of wall-clock time per second of processor time, for busy machines
ANSWER, ANSWER_PER_BYTE = 2**20, 8  # of the answer: an int32 of one byte becomes four
WEIGHTS, REASON = b"\0", b"\1"


def main() -> int:
    """Read graphs from stdin until it ends."""
    die_with_parent(int(sys.argv[1]))
    no_new_privileges()
    answers = claim_stdout()
    _weights(_small_graph())  # loads every import before the first fork, which cannot open files
    gc.disable()  # collection would write to pages shared with the forks, which then are copied
    gc.freeze()
    no_network()  # if that is not permitted, the forks still cannot open a socket
    requests = sys.stdin.buffer
    while len(head := requests.read(HEAD.size)) == HEAD.size:
        size, seconds = HEAD.unpack(head)
        graph = requests.read(size)
        if len(graph) < size:
            break
        answer = _read_in_fork(graph, seconds, answers, requests)
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()
    return 0


def _read_in_fork(graph: bytes, seconds: int, *ours: BinaryIO) -> bytes:
    """The answer of the fork, or how it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for file in (reading, *(file.fileno() for file in ours)):
            os.close(file)
        _answer(graph, writing, seconds)
    os.close(writing)
    try:
        most = ANSWER + ANSWER_PER_BYTE * len(graph)
        answer = read_all(reading, most=most, until=time.monotonic() + PATIENCE * seconds)
    finally:
        os.close(reading)
        code = end_fork(child)
    if answer is None:
        return (
            REASON
            + f"the ONNX graph takes more than {PATIENCE * seconds} s to read, or has weights without end".encode()
        )
    return answer if answer and code >= 0 else REASON + _ending(code, seconds).encode()


def _answer(graph: bytes, writing: int, seconds: int) -> None:
    """In the fork: read the graph, write its weights, exit."""
    try:
        limit_resources(memory=address_space() + MEMORY + MEMORY_PER_BYTE * len(graph), cpu_s=seconds)
        no_new_files()
        write_all(writing, [_weights(graph)])
    finally:
        os._exit(0)


def _weights(graph: bytes) -> bytes:
    from core.errors import EdgestillError
    from quant.onnx.weights import read_weights
    from wire.tensors import encode

    try:
        return WEIGHTS + encode(read_weights(graph))
    except EdgestillError as error:
        return REASON + str(error).encode(errors="replace")
    except MemoryError:
        return REASON + b"the ONNX graph takes more memory than its size is worth"
    except Exception as error:
        return REASON + f"the ONNX graph cannot be read: {type(error).__name__}".encode()


def _small_graph() -> bytes:
    """A valid graph, to load all code that reading a graph needs."""
    import onnx

    graph = onnx.GraphProto(name="g")
    graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1], raw_data=bytes(4))
    graph.node.add(op_type="Identity", input=["w"], output=["y"])
    graph.output.add(name="y").type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    graph.output[0].type.tensor_type.shape.dim.add(dim_value=1)
    model = onnx.ModelProto(ir_version=8, graph=graph)
    model.opset_import.add(domain="", version=18)
    data: bytes = model.SerializeToString()
    return data


def _ending(code: int, seconds: int) -> str:
    if code < 0:
        name = signal_name(-code)
        spent = f" after {seconds} s of processor time" if name == "SIGKILL" else ""
        return f"the ONNX graph ended the process that read it ({name}{spent})"
    return "the ONNX graph ended the process that read it"


if __name__ == "__main__":
    sys.exit(main())
