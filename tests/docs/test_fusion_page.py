"""docs/fusion.md is true: its tables are those of the code, its own part joins a fleet, its fleet.toml loads."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.recipes.catalogue import RECIPES
from aggregator.recipes.overrides import KEYS, OPTIONS
from aggregator.recipes.parts import PARTS
from tests.aggregator.scripted import write_fleet
from tests.docs.test_docs import ROOT, environment, names_in, run_shell, shell_lines, snippets, table_rows
from transport.config import BrokerConfig

PAGE = "docs/fusion.md"


def test_the_recipes_are_those_that_there_are() -> None:
    rows = table_rows(PAGE, "Recipes")
    assert [names_in(row[0])[0] for row in rows] == list(RECIPES)
    for name, trust, weigh, average, teach, paper in rows:
        recipe = RECIPES[names_in(name)[0]]
        assert trust == (recipe.trust or ""), name
        assert weigh == recipe.weigh, name
        assert average.split(",")[0].split(";")[0] == recipe.average, name
        assert teach.split(",")[0] == (recipe.teach or ""), name
        assert all(work in recipe.paper for work in paper.split("; ")), name


def test_the_parts_are_those_that_there_are() -> None:
    rows = [(row[0], names_in(row[1])[0]) for row in table_rows(PAGE, "Parts")]
    assert rows == [(kind, name) for kind, known in PARTS.items() for name in known]


def test_every_field_and_option_is_named() -> None:
    fields = {name for row in table_rows(PAGE, "`[fusion]` in fleet.toml") for name in names_in(row[0])}
    assert fields | {"swa_lr"} == set(KEYS) - set(OPTIONS)
    text = (ROOT / PAGE).read_text()
    assert [option for option in OPTIONS if f"`{option}`" not in text] == []


def test_the_table_of_the_page_is_a_valid_one(tmp_path: Path) -> None:
    (table,) = [s.code for s in snippets(ROOT / PAGE) if s.language == "toml" and s.code.startswith("[fusion]")]
    for lines in (table, table.replace("\n# ", "\n")):
        body = lines.removeprefix("[fusion]\n")
        path = write_fleet(tmp_path, BrokerConfig(), ["pi-0"], fusion=body, task='validation = "v.npz"')
        fusion = load_fleet_config(path, environ={}).fusion
        assert (fusion.name, fusion.recipe.distill.steps, fusion.recipe.screen) == ("feddf", 2000, ("drop-worst",))


def test_the_own_part_of_the_page_weighs_a_fleet_as_the_page_says(tmp_path: Path) -> None:
    page = snippets(ROOT / PAGE)
    (code,) = [s.code for s in page if s.language == "python" and "def bounded(" in s.code]
    assert len(code.splitlines()) <= 20
    (project,) = [s.code for s in page if s.language == "toml" and "edgestill.fusion" in s.code]
    declared = ConfigParser()
    declared.read_string(project)
    ((name, target),) = declared['project.entry-points."edgestill.fusion"'].items()
    file = tmp_path.joinpath(*target.strip('"').partition(":")[0].split(".")).with_suffix(".py")
    file.parent.mkdir()
    file.write_text(code)
    installed = tmp_path / "mypackage-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    points = f"{name} = {target}".replace('"', "")
    (installed / "entry_points.txt").write_text(f"[edgestill.fusion]\n{points}\n")
    (command,) = [line for s in page if s.language == "console" for line in shell_lines(s.code)]
    run_shell(f"{command} --devices 3 --rounds 1 --local-steps 1", tmp_path, environment(tmp_path))


@pytest.mark.parametrize("recipe", [r for r in RECIPES if RECIPES[r].needs_source])
def test_the_page_says_what_needs_samples(recipe: str) -> None:
    (row,) = [row for row in table_rows(PAGE, "Recipes") if names_in(row[0]) == [recipe]]
    assert row[4] or row[2] == "median-score"
