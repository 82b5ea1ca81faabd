"""Every form of a file is loaded and run by the ONNX Runtime that it is made for.

Each version is installed by pip into a folder of its own; where pip reaches no package index, the test is skipped.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.onnx.integers.nbits import to_nbits
from quant.onnx.raw import raw_graph
from quant.onnx.session import open_session, run_graph
from quant.onnx.targets import Target, target_of_runtime

pytestmark = [
    pytest.mark.slow,  # installs several versions of ONNX Runtime
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="older versions have wheels for Python 3.11"),
]
VERSIONS = ("1.15.1", "1.18.1", "1.19.2", "1.20.1", "1.23.2", "1.24.4", "1.28.0", "1.30.0")
X = np.random.default_rng(0).integers(0, 256, (4, 3, 16, 16), dtype=np.uint8)
RUN = """
import json, sys, numpy, onnxruntime
answers = {}
for path in sys.argv[2:]:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    answers[path] = session.run(None, {"input": numpy.load(sys.argv[1])})[0].tolist()
print(onnxruntime.__version__, json.dumps(answers))
"""


@functools.cache
def forms(target: Target) -> dict[str, tuple[bytes, float]]:
    """Graphs for such runtimes, and how much their answers may differ from those of the newest."""
    made = {}
    for name in ("cnn:fp32", "cnn:w8a8", "cnn:w4a4", "cnn:w2a2", "cnn:w1", "cnn:w1a1"):
        spec = PrototypeSpec(*parse_prototype(name), (3, 16, 16), 4, 64)
        model = build(spec, generator=torch.Generator().manual_seed(0)).eval()
        example = torch.from_numpy(X.astype(np.float32) / 255)
        plain = export_onnx(model, example, low_bits=target.low_bits).data
        made[name] = (raw_graph(plain, (0.0,), (255.0,)), 1e-5)
        if name == "cnn:w1" and target.nbits is not None:
            made[f"{name} nbits"] = (raw_graph(to_nbits(plain, low_bits=target.nbits).data, (0.0,), (255.0,)), 1e-3)
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_is_run_by_the_runtime_that_it_names(version: str, tmp_path: Path) -> None:
    numpy = ["numpy==1.26.4"] if tuple(map(int, version.split("."))) < (1, 19) else []  # built for NumPy 1
    packages = [f"onnxruntime=={version}", *numpy]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--target"]
    done = subprocess.run([*pip, str(tmp_path / "old"), *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot install {packages}: {done.stderr[-300:]}")
    made = forms(target_of_runtime(version))
    paths = {name: tmp_path / f"{number}.onnx" for number, name in enumerate(made)}
    for name, (data, _) in made.items():
        paths[name].write_bytes(data)
    np.save(tmp_path / "x.npy", X)
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "x.npy"), *map(str, paths.values())],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "old")},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found, _, answers = ran.stdout.strip().splitlines()[-1].partition(" ")
    assert found == version
    for name, (data, most) in made.items():
        answer = np.array(json.loads(answers)[str(paths[name])])
        assert np.abs(answer - run_graph(open_session(data), X)).max() < most, name
