"""The helper as a process: a survey in JSON, whatever a loader prints."""

import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from core.processes.process import environment
from core.processes.python_child import module_arguments
from edge_agent.samples.spec import Asked, SourceSpec
from edge_agent.samples.survey import Survey
from edge_agent.samples.task_file import KnownTask, write_task

pytestmark = pytest.mark.light


def ask(spec: SourceSpec, state: Path, **env: str) -> Survey:
    asked = Asked(spec=spec, state_dir=str(state), seconds=20.0)
    done = subprocess.run(
        [sys.executable, *module_arguments("edge_agent.samples.helper")],
        input=msgspec.json.encode(asked),
        capture_output=True,
        check=True,
        env={**environment(), **env},
        timeout=120,
    )
    return msgspec.json.decode(done.stdout, type=Survey)


def test_it_answers_with_a_survey(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2), np.float32), y=[0, 2, 5])
    write_task(tmp_path, KnownTask(input_shape=(2,), classes=3))
    survey = ask(SourceSpec(path=str(tmp_path / "a.npz")), tmp_path)
    assert (survey.label_counts, survey.unknown) == ((1, 0, 1), {"5": 1})


def test_a_loader_may_print(tmp_path: Path) -> None:
    (tmp_path / "greenhouse.py").write_text("def load(path):\n    print('hello')\n    return [[1.0]], ['a']\n")
    spec = SourceSpec(path=".", kind="python", loader="greenhouse:load")
    path = f"{environment()['PYTHONPATH']}:{tmp_path}"
    assert ask(spec, tmp_path, PYTHONPATH=path).counts == {"a": 1}
