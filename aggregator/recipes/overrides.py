"""Overrides of a recipe: any of its fields by one flat name, as `[fusion]` and `--fusion` give them. Imports no torch.

    steps = 200               of the distillation
    weigh = "uniform"         a part
    krum_f = 3                an option of a part
    options = { mine = 2.0 }  options of your own parts

A round's recipe is stored in the journal as one string, name and overrides, so that a restart uses the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from aggregator.recipes.generator import FORMS, GUIDANCE, LABELS, LOSSES, NOISES
from aggregator.recipes.parts import part_names
from core.config_keys import Key, take
from core.errors import ConfigError, did_you_mean
from core.limits import BATCH, DEVICES, EPOCHS, LR, STEPS, WEIGHT, WIDTH

if TYPE_CHECKING:
    from aggregator.recipes.catalogue import Recipe
    from aggregator.recipes.generator import Generation

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
#: Options of the built-in parts; a part reads its own from `View.options`.
OPTIONS: Mapping[str, Key] = {
    "drop_below": Key(float, None, least=0, most=1),
    "score_power": Key(float, None, least=0, most=WEIGHT.most),
    "krum_f": Key(int, None, least=0, most=DEVICES.most),
    "krum_m": Key(int, None, least=1, most=DEVICES.most),
    "krum_reference": Key(bool, None),
    "afa_xi": Key(float, None, least=0, most=WEIGHT.most),
    "afa_xi_step": Key(float, None, least=0, most=WEIGHT.most),
    "afa_reference": Key(bool, None),
    "fedmgda": Key(str, None, choices=("plusplus", "plus")),
    "fedmgda_epsilon": Key(float, None, least=0, most=1),
    "fedmgda_reference": Key(bool, None),
    "fedbe_alpha": Key(float, None, least=1e-3, most=WEIGHT.most),
    "trust_cut": Key(float, None, least=0, most=1),
    "trust_lean": Key(float, None, least=0, most=1),
    "trust_reach": Key(float, None, least=0, most=WEIGHT.most),
}
#: Of the generator: fields of `Generation`, each with `generator_` before its name; `generator` is a form of it.
GENERATOR: Mapping[str, Key] = {
    "generator_loss": Key(str, None, choices=LOSSES),
    "generator_noise": Key(str, None, choices=NOISES),
    "generator_labels": Key(str, None, choices=LABELS),
    "generator_noise_width": Key(int, None, least=1, most=WIDTH.most),
    "generator_hidden": Key(int, None, least=1, most=WIDTH.most),
    "generator_batch_size": Key(int, None, least=2, most=BATCH.most),
    "generator_steps": Key(int, None, least=1, most=STEPS.most),
    "generator_lr": Key(float, None, least=0, most=LR.most),
    "generator_lr_decay": Key(float, None, least=0, most=1),
    "generator_weight_decay": Key(float, None, least=0, most=WEIGHT.most),
    "generator_diversity": Key(float, None, least=0, most=WEIGHT.most),
    "generator_prior": Key(float, None, least=0, most=WEIGHT.most),
}
#: Parameters sent to devices (edge_agent/objectives/fedgen_weights.py, edge_agent/objectives/personal.py,
# aggregator/recipes/lr_decay.py).
LOCAL: Mapping[str, Key] = {
    "generated_weight": Key(float, None, least=0, most=WEIGHT.most),
    "generated_kl": Key(float, None, least=0, most=WEIGHT.most),
    "generated_decay": Key(float, None, least=1e-6, most=1),
    "generated_floor": Key(float, None, least=0, most=WEIGHT.most),
    "generated_batch": Key(int, None, least=1, most=BATCH.most),
    "generated_by_size": Key(bool, None),
    "generated_steps": Key(int, None, least=0, most=STEPS.most),
    "label_logits_weight": Key(float, None, least=0, most=WEIGHT.most),
    "local_lr_decay": Key(float, None, least=1e-3, most=1),
    "personal": Key(bool, None),
    "personal_keep": Key(float, None, least=0, most=1),
    "personal_weight": Key(float, None, least=0, most=WEIGHT.most),
}
#: Defaults of personal models; docs/fusion.md has the measurements.
PERSONAL_MODELS: Mapping[str, float] = {"personal_keep": 0.5, "personal_weight": 0.3}
#: Every field that may be overridden; None: not overridden.
KEYS: Mapping[str, Key] = {
    "max_examples_ratio": Key(float, None, least=0, most=1e6),
    "screen": Key(tuple, None),
    "trust": Key(str, None),
    "weigh": Key(str, None),
    "average": Key(str, None),
    "bn": Key(str, None, choices=("mean", "last")),
    "server_momentum": Key(float, None, least=0, most=0.999),
    "sample": Key(str, None, choices=(NONE, "gaussian", "dirichlet")),
    "samples": Key(int, None, least=0, most=1000),
    "ensemble": Key(bool, None),
    "teach": Key(str, None),
    "start": Key(str, None, choices=("average", "previous")),
    "optimizer": Key(str, None, choices=("adam", "sgd")),
    "lr": Key(float, None, least=0, most=LR.most),
    "schedule": Key(str, None, choices=("cosine", "constant", "swa")),
    "momentum": Key(float, None, least=0, most=0.999999),
    "weight_decay": Key(float, None, least=0, most=WEIGHT.most),
    "batch_size": Key(int, None, least=2, most=BATCH.most),
    "steps": Key(int, None, least=0, most=STEPS.most),
    "epochs": Key(int, None, least=0, most=EPOCHS.most),
    "shuffle": Key(bool, None),
    "check_every": Key(int, None, least=0, most=STEPS.most),
    "patience": Key(int, None, least=0, most=STEPS.most),
    "clip": Key(float, None, least=0, most=WEIGHT.most),
    "temperature": Key(float, None, least=1e-3, most=WEIGHT.most),
    "keep_start": Key(bool, None),
    "swa": Key(int, None, least=-1, most=STEPS.most),
    "swa_lr": Key(float, None, least=0, most=LR.most),
    "student": Key(str, None, choices=("float", "own")),
    "float_share": Key(float, None, least=0, most=0.9),
    "check_at": Key(str, None, choices=("float", "own")),
    "generator": Key(str, None, choices=(NONE, *FORMS)),
    "refine": Key(int, None, least=0, most=STEPS.most),
    "label_logits": Key(str, None, choices=("seen", "all")),
    **GENERATOR,
    **LOCAL,
    **OPTIONS,
    "options": Key(dict, None),
}
_PARTS = ("screen", "trust", "weigh", "average", "teach")


def override(recipe: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """`recipe` with these fields in place of its own; `overrides` must have been checked."""
    values = check_overrides(overrides)
    own = {f.name for f in fields(recipe)} - {"options"}
    of_distillation = {f.name for f in fields(recipe.distill)}
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
    how = recipe.generation if form is None else FORMS.get(form)
    changes = {name.removeprefix("generator_"): value for name, value in values.items() if name in GENERATOR}
    if how is None and changes:
        raise ConfigError(f"recipe {recipe.name} has no generator; {next(iter(changes))} is of fedgen and edgestill")
    return None if how is None else replace(how, **changes)


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
            raise ConfigError(f"{name} goes with personal = true")
    return rest


def check_overrides(overrides: Mapping[str, Any], where: str = "fusion") -> dict[str, Any]:
    """The overrides that are given, each of its type; `ConfigError` names the one that is not, or is unknown."""
    table = {name: list(value) if isinstance(value, tuple) else value for name, value in overrides.items()}
    values = {n: v for n, v in take(table, where, KEYS, environ={}).items() if v is not None}
    if 0 < values.get("max_examples_ratio", 0) < 1:
        ratio = values["max_examples_ratio"]
        raise ConfigError(f"{where}: 'max_examples_ratio' is {ratio:g}; give 1 or more medians, or 0 for no cap")
    for kind in _PARTS:
        given = values.get(kind, ())
        for name in (given,) if isinstance(given, str) else given:
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
    from aggregator.recipes.catalogue import find_recipe

    name, _, overrides = text.partition(" ")
    return find_recipe(name, json.loads(overrides) if overrides else {})
