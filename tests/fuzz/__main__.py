"""Repeat cases of the fuzzer: `python -m tests.fuzz KIND NUMBER [COUNT]`, with the traceback of whatever comes out."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

from tests.fuzz.cases import case
from tests.fuzz.office import Decoders, Office

kind, number = sys.argv[1], int(sys.argv[2])
count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
logging.basicConfig(level=logging.DEBUG)
with tempfile.TemporaryDirectory() as folder:
    decoders, office = Decoders(Path(folder)), Office(Path(folder) / "office")
    for at in range(number, number + count):
        made = case(kind, at)
        sizes = [(topic, len(payload)) for topic, payload in made.messages]
        sys.stdout.write(f"{made}: {sizes}\n")
        decoders.meet(made)
        office.hand_in(made)
    office.settle()
    sys.stdout.write(f"{dict(decoders.heard)}; accepted and fused: {office.fuse_accepted()}\n")
    office.close()
