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
        print(made, [(topic, len(payload)) for topic, payload in made.messages])
        decoders.meet(made)
        office.hand_in(made)
    office.settle()
    print(dict(decoders.heard), "accepted:", office.fuse_accepted())
    office.close()
