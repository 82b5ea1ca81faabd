"""The front door for applications: cheap to import, and all that its docstring shows."""

import subprocess
import sys
from pathlib import Path

import pytest

import edgestill.device
from edgestill.device import DataError, EdgestillError, Model, ModelError
from tests.edge_agent.predict.boards import images, leave_model

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parents[2]


def test_the_docstring_names_what_there_is(tmp_path: Path) -> None:
    leave_model(tmp_path)
    model = Model(tmp_path)
    answer = model.predict(images(2))
    assert answer.labels == ("ant", "bee")
    assert answer.probabilities.shape == (2, 3)
    assert not model.reload()
    assert all(hasattr(edgestill.device, name) for name in edgestill.device.__all__)
    assert issubclass(DataError, EdgestillError)
    with pytest.raises(ModelError):
        Model(tmp_path / "absent")


def test_importing_it_is_cheap() -> None:
    code = (
        "import time, sys; t = time.process_time(); import edgestill.device; "
        "print(time.process_time() - t, [m for m in ('torch', 'onnx', 'onnxruntime', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    seconds, _, heavy = done.stdout.partition(" ")
    assert heavy.strip() == "[]"
    assert float(seconds) < 1.0  # CPU seconds; 0.2 measured, mostly NumPy
