"""One torch thread per test process: two collapse as soon as the machine is busy. No deadlines for the same reason.

Datasets are read from `../shared/data` beside the checkout where it exists, unless `EDGESTILL_DATA` names a folder.
"""

import os
from pathlib import Path

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if SHARED.is_dir():
    os.environ.setdefault("EDGESTILL_DATA", str(SHARED))

settings.register_profile("edgestill", deadline=None)  # a case that waits for its turn is not a slow one
settings.load_profile("edgestill")
