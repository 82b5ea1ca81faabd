"""Users' recipes by a real entry point: the one of docs/fusion.md is `edgestill`, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.test_docs import snippets

ROOT = Path(__file__).resolve().parents[3]
PARTS = """
def by_score(view):
    return [view.scores[update.device] for update in view.updates]
by_score.needs = ("scores", "unlabeled")
def greedy(view):
    return [1.0 for _ in view.updates]
greedy.needs = ("everything",)
NOTHING = 3
"""
COMPARE = """
import torch
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Group, Memory, Received, Server
from aggregator.recipes.catalogue import find_recipe, recipe_names
from models.build import build
from models.spec import PrototypeSpec, parse_prototype

assert "mine" in recipe_names()
spec = PrototypeSpec(*parse_prototype("mlp:fp32"), (12,), 4)
rng = torch.Generator().manual_seed(0)
model = build(spec, generator=rng).state_dict()
def update(k):
    state = {n: w + 0.1 * torch.randn(w.shape, generator=rng) for n, w in model.items()}
    return Received(device=f"d{k}", num_examples=10 + k, state=lambda: state, label_counts=(4.0, 3.0, 2.0, 1.0 + k))
group = Group(spec=spec, previous=model, updates=[update(k) for k in range(5)])
def fuse(name, source):
    server = Server(source=source, validation=None)
    memory = Memory()
    for number in (1, 2):
        fused = fuse_round(find_recipe(name, {"steps": 5}), [group], server, number, memory)
        memory = fused.memory
    return fused
for source in (None, torch.randn(40, 12, generator=rng)):
    mine, ours = fuse("mine", source), fuse("edgestill", source)
    for name, w in ours.states["mlp:fp32"].items():
        assert torch.equal(w, mine.states["mlp:fp32"][name]), name
    assert ours.devices == mine.devices
    assert all(torch.equal(t, mine.side_artifact.tensors[n]) for n, t in ours.side_artifact.tensors.items())
print("equal")
"""


def installed(folder: Path, entry_points: str) -> dict[str, str]:
    """A package on the path as pip would leave it, with the page's recipe in it; the environment that finds it."""
    (code,) = [s.code for s in snippets(ROOT / "docs" / "fusion.md") if s.language == "python" and "MINE =" in s.code]
    package = folder / "mypackage"
    package.mkdir()
    (package / "recipes.py").write_text(code)
    (package / "parts.py").write_text(PARTS)
    facts = folder / "mypackage-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(entry_points)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_users_composition_of_the_same_parts_gives_the_same_bits(tmp_path: Path) -> None:
    environment = installed(tmp_path, "[edgestill.recipes]\nmine = mypackage.recipes:MINE\n")
    assert run(environment, "-c", COMPARE).strip() == "equal"
    assert "mine" in run(environment, "-m", "edgestill", "recipe", "list")
    assert "two-doubts" in run(environment, "-m", "edgestill", "recipe", "show", "mine")


def test_what_is_no_recipe_does_not_load_or_is_unknown_is_one_line(tmp_path: Path) -> None:
    points = "[edgestill.recipes]\nbad = mypackage.parts:NOTHING\ngone = mypackage.parts:ABSENT\n"
    environment = installed(tmp_path, points)
    assert "recipe bad is not a Recipe but a int" in run(environment, "-m", "edgestill", "recipe", "show", "bad")
    assert "recipe gone does not load (AttributeError" in run(environment, "-m", "edgestill", "recipe", "show", "gone")
    assert "did you mean 'fedavg'?" in run(environment, "-m", "edgestill", "recipe", "show", "fedavk")


def test_a_users_part_gets_what_it_needs_and_what_no_round_provides_is_refused(tmp_path: Path) -> None:
    points = "[edgestill.fusion]\nweigh.by-score = mypackage.parts:by_score\nweigh.greedy = mypackage.parts:greedy\n"
    environment = installed(tmp_path, points)
    shown = run(environment, "-m", "edgestill", "recipe", "show", "fedavg", "--fusion", "weigh=by-score")
    assert "needs unlabeled samples: yes" in shown
    assert "its parts need: scores, unlabeled" in shown
    refused = run(environment, "-m", "edgestill", "recipe", "show", "fedavg", "--fusion", "weigh=greedy")
    assert "part weigh.greedy needs 'everything', which no round provides" in refused
    flags = "--dataset digits --devices 4 --rounds 1 --local-steps 2 --prototypes mlp:fp32 --source noise"
    ran = run(environment, "-m", "edgestill", "simulate", *flags.split(), "--fusion", "weigh=by-score")
    assert "accuracy" in ran, ran
