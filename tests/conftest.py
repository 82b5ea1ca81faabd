"""One torch thread per test process: two collapse as soon as the machine is busy. No deadlines for the same reason."""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("edgestill", deadline=None)  # a case that waits for its turn is not a slow one
settings.load_profile("edgestill")
