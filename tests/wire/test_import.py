"""What importing the wire costs a small board."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wire

pytestmark = pytest.mark.light

SLOWER = float(os.environ.get("EDGESTILL_TEST_SLOWER", "1"))  # than a processor of today: tests/boards emulate one
ROOT = Path(wire.__file__).resolve().parents[1]
SCRIPT = """
import sys, time
start = time.process_time()
import numpy
between = time.process_time()
for name in {modules!r}:
    __import__("wire." + name)
print(time.process_time() - start, time.process_time() - between)
print(*sorted({{name.split(".")[0] for name in sys.modules}}))
"""


def fresh_import() -> tuple[float, float, set[str]]:
    """CPU seconds of importing all of the wire in a new interpreter, with and without NumPy's, and what came along."""
    files = (f.relative_to(ROOT / "wire").with_suffix("") for f in (ROOT / "wire").rglob("*.py"))
    modules = sorted({".".join(f.parts).removesuffix(".__init__") for f in files} - {"__init__"})
    assert {"topics", "messages", "envelope", "tensors", "transfer"} <= set(modules)
    script = SCRIPT.format(modules=modules)
    out = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    seconds, loaded = out.splitlines()
    whole, own = map(float, seconds.split())
    return whole, own, set(loaded.split())


def test_importing_all_of_the_wire_is_quick_and_brings_neither_torch_nor_paho():
    wholes, owns, loaded = zip(*(fresh_import() for _ in range(3)), strict=True)
    assert "numpy" in loaded[0]
    assert loaded[0].isdisjoint({"torch", "brevitas", "paho", "onnx", "onnxruntime"})
    assert min(wholes) < 0.5 * SLOWER
    assert min(owns) < 0.2 * SLOWER
