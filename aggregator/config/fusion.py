"""The table [fusion] of fleet.toml: the recipe, what overrides it, and what the aggregator brings to it. No torch.

recipe = "feddf"
source = "pool.npz"          unlabeled samples: a file with x, a generator.onnx, noise, noise:gaussian
steps = 500                  any field of the recipe (aggregator/recipes/overrides.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggregator.recipes.catalogue import Recipe, find_recipe, recipe_names
from aggregator.recipes.overrides import KEYS, check_overrides, recipe_text
from core.config_keys import Key
from core.errors import ConfigError, did_you_mean
from core.limits import SAMPLES

__all__ = ["FUSION_KEYS", "NOISE", "FusionConfig", "fusion_config", "list_of_words"]

NOISE = ("noise", "noise:gaussian")
_OWN: dict[str, Key] = {
    "recipe": Key(str, "fedavg"),
    "source": Key(str, "none"),
    "source_size": Key(int, None, least=1, most=SAMPLES.most),
    "source_fraction": Key(float, 1.0, least=0, most=1),
    "source_classes": Key(tuple, ()),
    "validation": Key(str, "task"),
    "teachers": Key(tuple, ()),
    "device": Key(str, "auto"),
    "processes": Key(int, 1, least=1, most=256),
    "score_ensemble": Key(bool, True),
}
FUSION_KEYS: dict[str, Key] = {**_OWN, **KEYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionConfig:
    """How rounds are fused, and with what."""

    name: str = "fedavg"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    source: str = "none"
    source_size: int | None = None
    source_fraction: float = 1.0
    source_classes: tuple[int, ...] = ()
    validation: str = "task"  # labelled samples that have a say: those of [task], none, or a file
    teachers: tuple[Path, ...] = ()  # further teachers, as ONNX files
    device: str = "auto"
    processes: int = 1
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


def fusion_config(values: Mapping[str, Any], where: str, base: Path, *, labelled: bool) -> FusionConfig:
    """From the values of the table; relative paths are below `base`, `labelled` says whether [task] has samples."""
    own = {name: values[name] for name in _OWN}
    overrides = check_overrides({n: v for n, v in values.items() if n in KEYS and v is not None}, where)
    classes = own.pop("source_classes")
    if not all(label.isdecimal() for label in classes):
        raise ConfigError(f"{where}: 'source_classes' is {list(classes)}; give class numbers from 0, such as [0, 3]")
    name = own.pop("recipe")
    if name not in recipe_names():
        hint = did_you_mean(name, recipe_names())
        raise ConfigError(f"{where}: 'recipe' is {name!r}{hint}; give one of {' '.join(recipe_names())}")
    config = FusionConfig(
        name=name,
        overrides=overrides,
        source=_path(own.pop("source"), ("none", *NOISE), base),
        source_classes=tuple(map(int, classes)),
        validation=_path(own.pop("validation"), ("task", "none"), base),
        teachers=tuple(base / Path(text).expanduser() for text in own.pop("teachers")),
        **own,
    )
    _check(config, where, labelled)
    return config


def _check(config: FusionConfig, where: str, labelled: bool) -> None:
    recipe = config.recipe
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


def _path(text: str, words: tuple[str, ...], base: Path) -> str:
    return text if text in words else str(base / Path(text).expanduser())


def list_of_words(value: Any) -> Any:
    """A list of whole numbers as one of strings, which is what a config key holds; anything else as it is."""
    if isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return [str(item) for item in value]
    return value
