"""Parts by kind and name: every built-in one is there, and a user's own comes by a real entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.recipes.catalogue import RECIPES
from aggregator.recipes.parts import PARTS, find_part, part_names
from core.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
MINE = """
def loudest(view):
    # the device with the most examples decides alone; `bonus` counts for the first one
    sizes = view.num_examples
    sizes[0] += view.options.get("bonus", 0)
    return [float(n == max(sizes)) for n in sizes]


def faulty(view):
    return view.no_such_field
"""
TRY = """
import torch
from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Group, Memory, Server
from aggregator.recipes.catalogue import find_recipe
from tests.aggregator.fusion.views import SPEC, points, received

states = points([1.0], [2.0])
updates = [received("a", states[0], 3), received("b", states[1], 5)]
group = Group(spec=SPEC, previous=points([0.0])[0], updates=updates)
for bonus in (0, 4):
    recipe = find_recipe("fedavg", {"weigh": "loudest", "options": {"bonus": bonus}})
    print(fuse_round(recipe, [group], Server(), 1, Memory()).states["mlp:fp32"]["w"].item())
"""


@pytest.mark.parametrize("kind", PARTS)
def test_every_built_in_part_is_there(kind: str) -> None:
    for name in PARTS[kind]:
        assert callable(find_part(kind, name)), name
    assert part_names(kind) == tuple(PARTS[kind])


def test_recipes_name_parts_that_exist() -> None:
    for recipe in RECIPES.values():
        wanted = [("weigh", recipe.weigh), ("average", recipe.average), *(("screen", s) for s in recipe.screen)]
        wanted += [] if recipe.teach is None else [("teach", recipe.teach)]
        for kind, name in wanted:
            assert name in PARTS[kind], f"{recipe.name}: {kind}.{name}"


def test_a_name_that_no_part_has_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no fusion part weigh.exampels; did you mean 'examples'\?"):
        find_part("weigh", "exampels")
    with pytest.raises(ConfigError, match=r"no fusion part teach\.zzz; known: mean-logits"):
        find_part("teach", "zzz")


def installed(folder: Path, points: str) -> dict[str, str]:
    """A package on the path as pip would leave it, and the environment that finds it."""
    (folder / "mine.py").write_text(MINE)
    facts = folder / "mine-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[edgestill.fusion]\n{points}\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}


def run(code: str, environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_users_part_comes_by_entry_point_and_gets_its_options(tmp_path: Path) -> None:
    environment = installed(tmp_path, "weigh.loudest = mine:loudest")
    assert run(TRY, environment).split() == ["2.0", "1.0"]


def test_a_part_that_does_not_load_or_takes_a_reserved_name_is_told(tmp_path: Path) -> None:
    environment = installed(tmp_path, "weigh.broken = mine:nothing\nweigh.examples = mine:loudest")
    code = """
from aggregator.recipes.parts import find_part
for name in ("broken", "examples"):
    try:
        find_part("weigh", name)
    except Exception as error:
        print(error)
"""
    said = run(code, environment)
    assert "entry point 'mine:nothing' of mine: part weigh.broken does not load (AttributeError" in said
    assert "entry point 'mine:loudest' of mine: weigh.examples is a built-in part; rename the entry point" in said


def test_a_simulation_names_the_users_part_that_raises(tmp_path: Path) -> None:
    environment = installed(tmp_path, "weigh.faulty = mine:faulty")
    command = "simulate --dataset digits --devices 1 --prototypes mlp:fp32 --rounds 1 --fusion weigh=faulty --quiet"
    done = subprocess.run(
        [sys.executable, "-m", "edgestill", *command.split()],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ConfigError.exit_code
    assert "entry point 'mine:faulty' of mine: part weigh.faulty failed (AttributeError" in done.stderr
