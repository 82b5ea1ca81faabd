"""The table [fusion] of fleet.toml: the recipe, its overrides, and the aggregator's own inputs. No torch.

recipe = "feddf"
source = "pool.npz"          unlabeled samples: a file with x, a generator.onnx, noise, noise:gaussian
steps = 500                  any field of the recipe (aggregator/recipes/overrides.py)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from aggregator.recipes.catalogue import Recipe, find_recipe, recipe_names
from aggregator.recipes.overrides import KEYS, check_overrides, recipe_text
from core.errors import ConfigError, did_you_mean
from core.limits import PROCESSES, SAMPLES
from core.settings import Field, Settings, describe, given, within
from core.settings.compute_names import Amp, device_name

__all__ = ["FUSION_FIELDS", "NOISE", "FusionConfig", "fusion_config"]

NOISE = ("noise", "noise:gaussian")


def _classes(value: Any) -> tuple[int, ...]:
    """[0, 3] of a file, or 0,3 of a variable."""
    words = [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(_is_label(word) for word in words):
        raise ValueError("give class numbers from 0, such as [0, 3]")
    return tuple(map(int, words))


def _is_label(word: Any) -> bool:
    return type(word) in (int, str) and len(str(word)) < 10 and str(word).isdecimal()


class FusionConfig(Settings, frozen=True, kw_only=True):
    """How rounds are fused, and with what."""

    name: Annotated[str, Meta(description="the recipe: `recipe` in the table")] = "fedavg"
    overrides: Annotated[Mapping[str, Any], Meta(description="of the recipe's fields")] = {}
    source: Annotated[str, Meta(description="unlabeled samples: a file with x, a generator.onnx, noise, none")] = "none"
    source_size: Annotated[int, within(1, SAMPLES.most)] | None = None
    source_fraction: Annotated[float, within(0, 1)] = 1.0
    source_classes: Annotated[tuple[int, ...], Meta(extra={"parse": _classes})] = ()
    validation: Annotated[str, Meta(description="labelled samples that have a say: task, none, or a file")] = "task"
    teachers: Annotated[tuple[Path, ...], Meta(description="further teachers, as ONNX files")] = ()
    device: Annotated[
        str, Meta(description="of teachers, students, generator and scores", extra={"parse": device_name})
    ] = "auto"
    amp: Annotated[Amp, Meta(description="mixed precision of students: off or bf16")] = "off"
    processes: Annotated[int, within(1, PROCESSES.most)] = 1
    engine: Annotated[
        Literal["processes", "ray"], Meta(description="where teachers and students compute: here, or on a Ray cluster")
    ] = "processes"
    address: Annotated[str, Meta(description="of the Ray cluster: HOST:PORT, or auto: the one of this machine")] = ""
    score_ensemble: bool = True

    @property
    def recipe(self) -> Recipe:
        """The recipe with its overrides."""
        return find_recipe(self.name, self.overrides)

    @property
    def text(self) -> str:
        """The recipe as the journal has it."""
        return recipe_text(self.name, self.overrides)

    def to_json(self) -> dict[str, Any]:
        """As [fusion] of fleet.toml, paths absolute."""
        own = {name: getattr(self, name) for name in _OWN if name != "recipe"}
        return {"recipe": self.name, **own, "teachers": [str(path) for path in self.teachers], **self.overrides}


_FIELDS = describe(FusionConfig)
_OWN: Mapping[str, Field] = {
    "recipe": dataclasses.replace(_FIELDS["name"], name="recipe"),
    **{name: field for name, field in _FIELDS.items() if name not in ("name", "overrides")},
}
#: Of the table: its own, and every field of a recipe.
FUSION_FIELDS: Mapping[str, Field] = {**_OWN, **KEYS}


def fusion_config(
    table: Mapping[str, Any],
    where: str,
    base: Path,
    *,
    env: str | None = None,
    environ: Mapping[str, str] | None = None,
    labelled: bool,
) -> FusionConfig:
    """The table, checked; relative paths are below `base`, `labelled` says whether [task] has samples."""
    values = given(FUSION_FIELDS, table, where, env=env, environ=environ)
    overrides = check_overrides({name: value for name, value in values.items() if name in KEYS}, where)
    own = {name: value for name, value in values.items() if name in _OWN}
    name = own.pop("recipe", _OWN["recipe"].default)
    if name not in recipe_names():
        hint = did_you_mean(name, recipe_names())
        raise ConfigError(f"{where}: 'recipe' is {name!r}{hint}; give one of {' '.join(recipe_names())}")
    for key, words in (("source", ("none", *NOISE)), ("validation", ("task", "none"))):
        if own.get(key, words[0]) not in words:
            own[key] = str(base / Path(own[key]).expanduser())
    own["teachers"] = tuple(base / path for path in own.get("teachers", ()))
    config = FusionConfig(name=name, overrides=overrides, **own)
    _check(config, where, labelled)
    return config


def _check(config: FusionConfig, where: str, labelled: bool) -> None:
    recipe = config.recipe
    if config.engine == "ray" and not config.address:
        raise ConfigError(f"{where}: engine ray needs 'address': HOST:PORT of a cluster, or auto for this machine's")
    if config.address and config.engine != "ray":
        raise ConfigError(f"{where}: 'address' is {config.address!r}, which needs engine ray")
    if config.engine == "ray" and find_spec("ray") is None:
        raise ConfigError(f"{where}: engine ray needs Ray; install it with: pip install 'edgestill[ray]'")
    if recipe.needs_source and config.source == "none":
        raise ConfigError(
            f"{where}: recipe {recipe.name} needs unlabeled samples; give 'source': a file with x, an .onnx "
            "generator or noise"
        )
    if "drop-worst" in recipe.screen and (
        config.validation == "none" or (config.validation == "task" and not labelled)
    ):
        raise ConfigError(f"{where}: 'screen' has drop-worst, which needs labelled samples; give [task] validation")
    if recipe.sample is not None and not recipe.samples:
        raise ConfigError(f"{where}: 'sample' is {recipe.sample}, but 'samples' is 0; say how many")
