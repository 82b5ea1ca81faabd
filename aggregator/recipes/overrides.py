"""Overrides of a recipe: any of its fields by one flat name, as `[fusion]` and `--fusion` give them. Imports no torch.

    steps = 200               of the distillation
    weigh = "uniform"         a part
    krum_f = 3                an option of a part
    options = { mine = 2.0 }  options of your own parts

A round's recipe is stored in the journal as one string, name and overrides, so that a restart uses the same.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from aggregator.recipes.catalogue import Distillation, Recipe, find_recipe
from aggregator.recipes.generator import FORMS, GUIDANCE, Generation
from aggregator.recipes.parts import part_names
from core.errors import ConfigError, did_you_mean
from core.limits import BATCH, DEVICES, STEPS, WEIGHT
from core.settings import Field, Settings, describe, given, replace, within

__all__ = [
    "GENERATOR",
    "KEYS",
    "LOCAL",
    "OPTIONS",
    "PERSONAL_MODELS",
    "check_overrides",
    "override",
    "parse_overrides",
    "read_recipe",
    "recipe_text",
]

NONE = "none"
Weight = Annotated[float, within(0, WEIGHT.most)]
Share = Annotated[float, within(0, 1)]


class PartOptions(Settings, frozen=True, kw_only=True):
    """Options of the built-in parts; a part reads its own from `View.options`."""

    drop_below: Share | None = None
    score_power: Weight | None = None
    krum_f: Annotated[int, within(0, DEVICES.most)] | None = None
    krum_m: Annotated[int, within(1, DEVICES.most)] | None = None
    krum_reference: bool | None = None
    afa_xi: Weight | None = None
    afa_xi_step: Weight | None = None
    afa_reference: bool | None = None
    fedmgda: Literal["plusplus", "plus"] | None = None
    fedmgda_epsilon: Share | None = None
    fedmgda_reference: bool | None = None
    fedbe_alpha: Annotated[float, within(1e-3, WEIGHT.most)] | None = None
    trust_cut: Share | None = None
    trust_lean: Share | None = None
    trust_reach: Weight | None = None


class LocalOverrides(Settings, frozen=True, kw_only=True):
    """Parameters for devices: edge_agent/objectives/{fedgen_weights,personal}.py, aggregator/recipes/lr_decay.py."""

    generated_weight: Weight | None = None
    generated_kl: Weight | None = None
    generated_decay: Annotated[float, within(1e-6, 1)] | None = None
    generated_floor: Weight | None = None
    generated_batch: Annotated[int, within(1, BATCH.most)] | None = None
    generated_by_size: bool | None = None
    generated_steps: Annotated[int, within(0, STEPS.most)] | None = None
    label_logits_weight: Weight | None = None
    local_lr_decay: Annotated[float, within(1e-3, 1)] | None = None
    personal: bool | None = None
    personal_keep: Share | None = None
    personal_weight: Weight | None = None


#: Defaults for personal models; docs/fusion.md has the measurements behind them.
PERSONAL_MODELS: Mapping[str, float] = {"personal_keep": 0.5, "personal_weight": 0.3}
_FIXED = ("name", "title", "paper", "note", "source_optional", "update", "local", "options")  # of Recipe
_MAY_BE_NONE = ("sample",)  # beside parts, of which `_check_part` knows
OPTIONS, LOCAL = describe(PartOptions), describe(LocalOverrides)
#: Of the generator: fields of `Generation`, each with `generator_` before its name; `generator` is a form of it.
GENERATOR: Mapping[str, Field] = {
    f"generator_{name}": dataclasses.replace(field, name=f"generator_{name}")
    for name, field in describe(Generation).items()
}


def _overridable() -> Iterator[Field]:
    """Fields of a recipe, with those of its distillation instead of `distillation`; without defaults."""
    for name, field in describe(Recipe).items():
        if name == "distill":
            yield from describe(Distillation).values()
        elif name == "generation":
            yield Field(name="generator", kind=str, choices=(NONE, *FORMS))
        elif name in _MAY_BE_NONE:
            yield dataclasses.replace(field, choices=(NONE, *field.choices))
        elif name not in _FIXED:
            yield field


#: Every field that may be overridden.
KEYS: Mapping[str, Field] = {
    **{field.name: field for field in _overridable()},
    **GENERATOR,
    **LOCAL,
    **OPTIONS,
    "options": describe(Recipe)["options"],
}
_PARTS = ("screen", "trust", "weigh", "average", "teach")


def override(recipe: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """`recipe` with these fields in place of its own; `overrides` must have been checked."""
    values = check_overrides(overrides)
    own = set(describe(Recipe)) - {"options"}
    of_distillation = describe(Distillation)
    options = {**recipe.options, **{n: v for n, v in values.items() if n in OPTIONS}, **values.get("options", {})}
    changes: dict[str, Any] = {name: None if value == NONE else value for name, value in values.items() if name in own}
    if recipe.label_logits is None and "label_logits" in values:
        raise ConfigError(f"recipe {recipe.name} has no logits by label; label_logits is of feddistill and feddistill+")
    return replace(
        recipe,
        **changes,
        generation=_generation(recipe, values),
        local=_local(recipe, values),
        distill=replace(recipe.distill, **{n: v for n, v in values.items() if n in of_distillation}),
        options=options,
    )


def _generation(recipe: Recipe, values: Mapping[str, Any]) -> Generation | None:
    form = values.get("generator")
    config = recipe.generation if form is None else FORMS.get(form)
    changes = {name.removeprefix("generator_"): value for name, value in values.items() if name in GENERATOR}
    if config is None and changes:
        raise ConfigError(f"recipe {recipe.name} has no generator; {next(iter(changes))} is of fedgen and edgestill")
    return None if config is None else replace(config, **changes)


def _local(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, float]:
    told = {name: float(value) for name, value in values.items() if name in LOCAL}
    if "label_logits_weight" in told:
        told["label_logits"] = told.pop("label_logits_weight")
    own, form = recipe.local, values.get("generator")
    if form is not None:  # another form, or none: the recipe's own values for devices do not apply
        own = {name: value for name, value in own.items() if not name.startswith("generated_")}
    return {**own, **GUIDANCE.get(form or "", {}), **_personal(told)}


def _personal(told: Mapping[str, float]) -> dict[str, float]:
    """The parameters of personal models sent to devices: `personal` is then the teacher's weight."""
    rest = {name: value for name, value in told.items() if name != "personal" and name not in PERSONAL_MODELS}
    if told.get("personal"):
        keep, weight = (told.get(name, usual) for name, usual in PERSONAL_MODELS.items())
        return {**rest, "personal": weight, "personal_keep": keep}
    for name in PERSONAL_MODELS:
        if name in told:
            raise ConfigError(f"{name} requires personal = true")
    return rest


def check_overrides(overrides: Mapping[str, Any], where: str = "fusion") -> dict[str, Any]:
    """The given overrides, checked; `ConfigError` names one that is unknown or of another type."""
    table = {name: list(value) if isinstance(value, tuple) else value for name, value in overrides.items()}
    values = given(KEYS, table, where, environ={})
    if 0 < values.get("max_examples_ratio", 0) < 1:
        ratio = values["max_examples_ratio"]
        raise ConfigError(f"{where}: 'max_examples_ratio' is {ratio:g}; give 1 or more medians, or 0 for no cap")
    for kind in _PARTS:
        parts = values.get(kind, ())
        for name in (parts,) if isinstance(parts, str) else parts:
            _check_part(kind, name, where)
    return values


def _check_part(kind: str, name: str, where: str) -> None:
    known = (*part_names(kind), *((NONE,) if kind in ("trust", "teach") else ()))
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {' '.join(known)}"
        raise ConfigError(f"{where}: '{kind}': no such part {name!r}{hint}")


def parse_overrides(texts: Sequence[str]) -> dict[str, Any]:
    """`steps=200`, `screen=drop-worst`, `options.mine=2` as values."""
    found: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (word.strip() for word in text.partition("="))
        if not (name and equals):
            raise ConfigError(f"--fusion {text!r}: write it as key=value, such as steps=200")
        if name.startswith("options."):
            options[name.removeprefix("options.")] = _plain(value)
            continue
        if name not in KEYS or name == "options":
            hint = did_you_mean(name, KEYS) or f"; known: {' '.join(KEYS)}"
            raise ConfigError(f"--fusion {text!r}: no key {name!r}{hint}")
        found[name] = _value(value, KEYS[name].kind)
    if options:
        found["options"] = options
    return check_overrides(found, "--fusion")


def _value(text: str, kind: type) -> Any:
    """`text` parsed as a value of `kind`; the text itself if that fails, for the check to refuse."""
    if kind is tuple:
        return [word.strip() for word in text.split(",") if word.strip() and word.strip() != NONE]
    return text if kind is str else _plain(text)


def _plain(text: str) -> Any:
    """A number, true, false, a quoted text or a list, as in JSON; anything else is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def recipe_text(name: str, overrides: Mapping[str, Any]) -> str:
    """Name and overrides in one line."""
    return f"{name} {json.dumps(dict(overrides), sort_keys=True)}" if overrides else name


def read_recipe(text: str) -> Recipe:
    """The recipe that `recipe_text` wrote."""
    name, _, overrides = text.partition(" ")
    return find_recipe(name, json.loads(overrides) if overrides else {})
