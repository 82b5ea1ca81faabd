"""Overrides of recipes: flat, checked, and readable again from the journal."""

import pytest

from aggregator.recipes.catalogue import MAX_EXAMPLES_RATIO, RECIPES, Distillation, Recipe, find_recipe
from aggregator.recipes.generator import PAPER, REFERENCE, Generation
from aggregator.recipes.overrides import (
    GENERATOR,
    KEYS,
    LOCAL,
    OPTIONS,
    PERSONAL_MODELS,
    parse_overrides,
    read_recipe,
    recipe_text,
)
from core.errors import ConfigError
from core.settings import replace

pytestmark = pytest.mark.light


def test_a_flat_name_reaches_recipe_distillation_and_parts() -> None:
    recipe = find_recipe("feddf", {"steps": 7, "weigh": "uniform", "krum_f": 2, "options": {"mine": 1.5}})
    assert (recipe.distill.steps, recipe.weigh) == (7, "uniform")
    assert recipe.options == {"krum_f": 2, "mine": 1.5}
    assert recipe.distill == replace(Distillation(), steps=7)
    assert RECIPES["feddf"].weigh == "examples"


def test_every_field_can_be_overridden_and_only_fields_can() -> None:
    fields = {*Distillation.__struct_fields__, *Recipe.__struct_fields__}
    about = {"name", "title", "paper", "note", "distill", "local", "generation", "source_optional", "update"}
    assert set(KEYS) - set(OPTIONS) - set(GENERATOR) - set(LOCAL) - {"generator"} == fields - about
    assert {name.removeprefix("generator_") for name in GENERATOR} == set(Generation.__struct_fields__)


def test_the_generator_has_two_forms_and_every_field_of_it_a_name() -> None:
    paper, reference = (find_recipe("fedgen", {"generator": form}) for form in ("paper", "reference"))
    assert (paper.generation, reference.generation) == (PAPER, REFERENCE)
    assert (paper.local, reference.local["generated_weight"]) == ({}, 10.0)
    mine = find_recipe("fedgen", {"generator": "reference", "generator_steps": 7, "generated_kl": 1.0})
    assert mine.generation == replace(REFERENCE, steps=7)
    assert mine.local == {**reference.local, "generated_kl": 1.0}
    assert find_recipe("fedgen", {"generator": "none"}).side_artifact is None
    assert find_recipe("fedavg", {"generator": "paper"}).side_artifact == "generator:paper"
    assert find_recipe("feddistill", {"label_logits_weight": 0.5}).local == {"label_logits": 0.5}


def test_personal_models_are_told_to_devices_with_what_is_kept_and_the_teachers_weight() -> None:
    usual = {"personal": PERSONAL_MODELS["personal_weight"], "personal_keep": PERSONAL_MODELS["personal_keep"]}
    assert find_recipe("fedavg", {"personal": True}).local == usual
    mine = find_recipe("fedprox", {"personal": True, "personal_weight": 0.25, "personal_keep": 1.0})
    assert mine.local == {"prox": 0.003, "personal": 0.25, "personal_keep": 1.0}
    assert find_recipe("fedavg", {"personal": False}).local == {}
    for name in PERSONAL_MODELS:
        with pytest.raises(ConfigError, match=f"{name} requires personal = true"):
            find_recipe("fedavg", {name: 0.5})


@pytest.mark.parametrize("overrides", [{"generator_steps": 3}, {"label_logits": "all"}])
def test_what_a_recipe_does_not_have_cannot_be_set(overrides: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="recipe fedavg has no"):
        find_recipe("fedavg", overrides)


def test_none_takes_a_stage_out() -> None:
    assert find_recipe("feddf", {"teach": "none"}).teach is None
    assert find_recipe("fedbe", {"sample": "none"}).sample is None
    assert find_recipe("afa", {"screen": []}).screen == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("steps=200", {"steps": 200}),
        (" lr = 1e-4 ", {"lr": 1e-4}),
        ("clip=5", {"clip": 5.0}),
        ("keep_start=false", {"keep_start": False}),
        ("screen=drop-worst, finite", {"screen": ("drop-worst", "finite")}),
        ("screen=none", {"screen": ()}),
        ("options.mine=[1, 2]", {"options": {"mine": [1, 2]}}),
        ("options.mine=word", {"options": {"mine": "word"}}),
    ],
)
def test_flags_are_read_by_the_type_of_their_key(text: str, found: dict) -> None:
    assert parse_overrides([text]) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stepz=1", "no key 'stepz'; did you mean 'steps'"),
        ("steps", "write it as key=value"),
        ("steps=many", "'steps' is 'many', expected a whole number"),
        ("steps=-1", "of at least 0"),
        ("lr=NaN", "'lr' is nan"),
        ("weigh=unifrom", "'weigh': no such part 'unifrom'; did you mean 'uniform'"),
        ("screen=drop-wurst", "'screen': no such part 'drop-wurst'; did you mean 'drop-worst'"),
        ("start=zero", "'start' is 'zero'; known: average previous"),
        ("name=x", "no key 'name'"),
        ("options=3", "no key 'options'"),
    ],
)
def test_a_wrong_override_is_told_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse_overrides([text])
    assert "\n" not in str(caught.value)


def test_the_journals_text_gives_the_recipe_again() -> None:
    assert recipe_text("fedavg", {}) == "fedavg"
    assert read_recipe("fedavg") == find_recipe("fedavg")
    overrides = parse_overrides(["steps=9", "screen=finite", "options.a=1", "teach=none"])
    text = recipe_text("fedrad", overrides)
    assert text == recipe_text("fedrad", dict(reversed(overrides.items())))
    assert read_recipe(text) == find_recipe("fedrad", overrides)


def test_the_ratio_of_the_example_cap_is_set_like_any_field_and_checked() -> None:
    assert find_recipe("fedavg").max_examples_ratio == MAX_EXAMPLES_RATIO
    assert {recipe.max_examples_ratio for recipe in RECIPES.values()} == {MAX_EXAMPLES_RATIO}
    assert find_recipe("edgestill", parse_overrides(["max_examples_ratio=10"])).max_examples_ratio == 10
    assert read_recipe(recipe_text("fedavg", {"max_examples_ratio": 0.0})).max_examples_ratio == 0
    for text in ("0.5", "-1", "1e7", "Infinity", "NaN", "many"):
        with pytest.raises(ConfigError, match="max_examples_ratio"):
            parse_overrides([f"max_examples_ratio={text}"])
