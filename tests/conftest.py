"""One torch thread per test process: two collapse as soon as the machine is busy."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
