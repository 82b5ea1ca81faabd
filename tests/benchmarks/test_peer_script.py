"""The script that stands for edgestill among its peers, with a harness as small as can be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMON = """
import argparse, json, sys
import torch

N_CLIENTS = 3

def args(more):
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    more(parser)
    found = parser.parse_args()
    for name, value in dict(
        model="mlp", data="noise", lr=0.05, batch=8, epochs=1, rounds=1, cohort=3, seed=0
    ).items():
        setattr(found, name, value)
    return found

class Data:
    def __init__(self, kind):
        rng = torch.Generator().manual_seed(0)
        self.x = torch.randn(48, 784, generator=rng)
        self.y = torch.arange(48) % 10

    def test(self):
        return self.x[:20], self.y[:20]

def write_result(a, **facts):
    with open(a.result, "w") as file:
        json.dump(facts, file)
"""


def test_the_script_of_the_peers_harness_runs(tmp_path: Path) -> None:
    (tmp_path / "common.py").write_text(COMMON)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])}
    script, result = ROOT / "benchmarks" / "_peer_edgestill.py", tmp_path / "result.json"
    command = [sys.executable, str(script), str(result), "--workers", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(result.read_text())
    assert facts.keys() == {"t_start_timed", "t_end_timed", "rounds_s", "accuracy", "version"}
    assert facts["rounds_s"] > 0
    assert 0 <= facts["accuracy"] <= 1
