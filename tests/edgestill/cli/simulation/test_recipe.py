"""`edgestill recipe`, and the flags of `simulate` that choose and change one."""

from __future__ import annotations

import json

import pytest

from aggregator.recipes.catalogue import RECIPES
from edgestill.cli.main import main

TINY = ["--devices", "4", "--prototypes", "mlp:fp32,cnn:w1", "--rounds", "1", "--local-steps", "1", "--compute", "cpu"]


def run(capsys: pytest.CaptureFixture, *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([*args])
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


def test_list_has_every_recipe(capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "recipe", "list")
    assert all(f"\n{name} " in f"\n{out}" for name in RECIPES)
    _, out, _ = run(capsys, "recipe", "list", "--json")
    facts = json.loads(out)
    assert [recipe["name"] for recipe in facts] == list(RECIPES)
    assert all(recipe["paper"] and recipe["title"] for recipe in facts)
    assert {r["name"] for r in facts if r["needs_source"]} == {"feddf", "feddf-median", "fedbe", "fedrad"}


def test_show_has_the_composition_the_needs_and_the_paper(capsys: pytest.CaptureFixture) -> None:
    code, out, _ = run(capsys, "recipe", "show", "fedrad", "--fusion", "steps=77")
    assert code == 0
    for words in ("Sturluson et al. 2021", "median-score", "median-logits", "steps = 77", "unlabeled samples: yes"):
        assert words in out, words
    (note,) = [line for line in out.splitlines() if line.startswith("note: ")]
    assert "excludes nobody" in note
    _, out, _ = run(capsys, "recipe", "show", "fedbe")
    assert "10 models drawn (gaussian)" in out
    _, out, _ = run(capsys, "recipe", "show", "fedavgm")
    assert "momentum 0.3 at the aggregator" in out
    assert "unlabeled samples: no" in out
    _, out, _ = run(capsys, "recipe", "show", "fedprox", "--json")
    facts = json.loads(out)
    assert (facts["local"], facts["distill"]) == ({"prox": 0.003}, None)


def test_an_unknown_recipe_or_field_is_one_line(capsys: pytest.CaptureFixture) -> None:
    code, _, err = run(capsys, "recipe", "show", "fedrat")
    assert (code, "did you mean 'fedrad'" in err, err.count("\n")) == (3, True, 1)
    code, _, err = run(capsys, "recipe", "show", "fedrad", "--fusion", "stepz=1")
    assert (code, "did you mean 'steps'" in err, err.count("\n")) == (3, True, 1)


def test_simulate_takes_recipe_overrides_source_and_attack(capsys: pytest.CaptureFixture) -> None:
    flags = ["--recipe", "fedrad", "--fusion", "steps=4", "--fusion", "batch_size=8", "--source", "noise"]
    flags += ["--source-size", "16", "--validation-size", "20", "--attack", "malicious:1"]
    code, out, err = run(capsys, "simulate", *TINY, *flags, "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["config"]["fusion"] == {"steps": 4, "batch_size": 8}
    assert [d.get("attack") for d in facts["fleet"]].count("malicious") == 1
    (only,) = facts["rounds"]
    assert only["prototypes"]["cnn:w1"]["distill_steps"] == 4
    assert {"average_accuracy", "ensemble_accuracy"} <= only["prototypes"]["cnn:w1"].keys()
    assert {"weight", "score"} <= only["devices"]["sim-0"].keys()
    assert "distill" in only["seconds_by"]


def test_fedprox_reaches_the_devices_unless_told_otherwise(capsys: pytest.CaptureFixture) -> None:
    for flags, prox in ((["--recipe", "fedprox"], 0.003), (["--recipe", "fedprox", "--prox", "0"], 0.0), ([], 0.0)):
        _, out, _ = run(capsys, "simulate", *TINY, *flags, "--json")
        assert json.loads(out)["config"]["training"]["prox"] == prox


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--fusion", "steps=x"], "'steps' is 'x', expected a whole number"),
        (["--recipe", "feddf", "--source", "none"], "give --source"),
        (["--source-classes", "a,b"], "give class numbers from 0"),
        (["--attack", "faulty:9"], "9 attackers, but 4 devices"),
        (["--recipe", "feddf", "--source", "mnits"], "--source 'mnits'"),
    ],
)
def test_a_wrong_flag_is_one_line(capsys: pytest.CaptureFixture, flags: list[str], words: str) -> None:
    code, _, err = run(capsys, "simulate", *TINY, *flags)
    assert code == 3
    assert words in err
    assert err.count("\n") == 1
