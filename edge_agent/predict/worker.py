"""Answers requests for the agent, which does not import NumPy: `python -m edge_agent.predict.worker FOLDER PID`.

Requests come on stdin and answers go to stdout, each as four bytes of length, big-endian, and the content. FOLDER has
the board's current.json. The process ends with its stdin, or with the agent.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import EdgestillError
from core.processes.pipes import claim_stdout, read_exactly
from core.processes.process_limits import die_with_parent
from edge_agent.predict.answers import answer_request
from edge_agent.predict.frames import LENGTH, MAX_ANSWER, MAX_INPUTS, frame
from edge_agent.predict.model import Model

__all__ = ["answered", "main"]


def answered(model: Model, request: bytes) -> bytes:
    """The answer as JSON, with `request`, the first 16 hex digits of the request's SHA-256."""
    identity = {"request": hashlib.sha256(request).hexdigest()[:16]}
    with suppress(EdgestillError):  # the model before stays in use; the agent has logged what is wrong with its folder
        model.reload()
    try:
        answer: dict[str, Any] = {**identity, **answer_request(model, request, most=MAX_INPUTS)}
    except (EdgestillError, MemoryError) as error:
        answer = {**identity, "error": " ".join(str(error).split())[:500] or "out of memory"}
    data = json.dumps(answer).encode()
    if len(data) > MAX_ANSWER:
        data = json.dumps({name: value for name, value in answer.items() if name != "probabilities"}).encode()
    if len(data) > MAX_ANSWER:
        data = json.dumps({**identity, "error": "the answer is too large; send fewer inputs"}).encode()
    return data


def main(folder: str, parent: str) -> int:
    """Answer until the agent closes the pipe."""
    die_with_parent(int(parent))
    answers, model = claim_stdout(), None
    while True:
        try:
            size = LENGTH.unpack(read_exactly(0, LENGTH.size))[0]
            request = bytes(read_exactly(0, size))
        except EOFError:
            return 0
        try:
            model = model or Model(Path(folder))
            data = answered(model, request)
        except EdgestillError as error:
            told = {"request": hashlib.sha256(request).hexdigest()[:16], "error": " ".join(str(error).split())[:500]}
            data = json.dumps(told).encode()
        answers.write(frame(data))
        answers.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
