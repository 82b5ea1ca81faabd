"""Recipes: named compositions of fusion parts, as data. Imports no torch: the command line and the config read it.

    cap -> screen -> trust -> weigh -> average    per prototype; cap: bounds the examples that a device counts for
    teach                                         over all prototypes
    distill                                       per prototype
    generate                                      over all

A recipe names the parts; `aggregator/recipes/parts.py` resolves them and knows the inputs of each. `[fusion]` of
fleet.toml names a recipe and may override any field of it. Users' recipes are added by the entry point
`edgestill.recipes`: a `Recipe` object under its name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from aggregator.recipes.generator import PAPER, Generation
from aggregator.recipes.parts import part_needs
from core import own_code
from core.entry_points import load_object, origin
from core.errors import ConfigError, did_you_mean
from core.limits import BATCH, EPOCHS, LR, STEPS, WEIGHT
from core.settings import Settings, replace, within
from wire.messages import MODEL_STAYS

__all__ = ["MAX_EXAMPLES_RATIO", "PERSONAL", "RECIPES", "Distillation", "Recipe", "find_recipe", "recipe_names"]

#: Honest fleets rarely exceed it (docs/fusion.md has figures); one false claim among 15 devices gets at most 3/17.
MAX_EXAMPLES_RATIO = 3.0
FEDDF_STEPS, FEDDF_CHECK, FEDDF_PATIENCE = 10_000, 100, 1000
PASSES, FEWEST, MOST = 3, 100, 1000  # of distillation, over the source; steps
#: Sent to devices that keep personal models: the teacher's weight (edge_agent/objectives/personal.py).
PERSONAL = "personal"


Rate = Annotated[float, within(0, LR.most)]
Steps = Annotated[int, within(0, STEPS.most)]
Weight = Annotated[float, within(0, WEIGHT.most)]
Precision = Literal["float", "own"]
Optimizer = Literal["adam", "sgd"]
Schedule = Literal["cosine", "constant", "swa"]


class Distillation(Settings, frozen=True, kw_only=True):
    """How a student learns from its teachers; the defaults are FedDF's (Lin et al. 2020, arXiv:2006.07242)."""

    start: Literal["average", "previous"] = "average"  # or previous: the published model
    optimizer: Optimizer = "adam"
    lr: Rate = 1e-3  # of the NeurIPS version; 2e-3 without a schedule in the preprint
    schedule: Schedule = "cosine"  # or constant, or swa: from lr towards swa_lr, epoch by epoch, as in FedRAD's code
    momentum: Annotated[float, within(0, 0.999999)] = 0.0  # of sgd
    weight_decay: Weight = 0.0
    batch_size: Annotated[int, within(2, BATCH.most)] = 128
    steps: Steps = 0  # at most; 0: by the size of the source, see `sized`
    epochs: Annotated[int, within(0, EPOCHS.most)] = 0  # over the source, at most; 0: as many as the steps take
    shuffle: bool = True
    check_every: Steps = 0  # steps between two evaluations on the validation set; 0: see `sized`
    patience: Steps = 0  # steps without improvement before it stops; 0: see `sized`
    clip: Weight = 5.0  # maximum norm of a gradient; 0: no clipping
    temperature: Annotated[float, within(1e-3, WEIGHT.most)] = 1.0
    keep_start: bool = True  # the initial weights are a checkpoint too
    # mean of every n-th step's students instead of the best (FedBE); 0: no, -1: every epoch's last
    swa: Annotated[int, within(-1, STEPS.most)] = 0
    swa_lr: Rate = 0.005  # of the schedule swa
    # precision of training: the prototype's, by straight-through gradients; or float (FedDF)
    student: Precision = "own"
    # of such a student's steps, those at full precision; then it learns from itself too
    float_share: Annotated[float, within(0, 0.9)] = 0.5
    check_at: Precision = "own"  # precision at which students are compared: that of a board; or float

    def __post_init__(self) -> None:
        for what, value, names in (("optimizer", self.optimizer, Optimizer), ("schedule", self.schedule, Schedule)):
            known = get_args(names)
            if value not in known:
                raise ConfigError(f"distillation: unknown {what} {value!r}{did_you_mean(value, known)}")

    def sized(self, samples: int) -> Distillation:
        """With the defaults that depend on the size of the source, N samples in mini-batches of B:

        steps        PASSES N / B, between FEWEST and MOST; `check_every` and `patience` an eighth and a half of them
        FedDF        10,000 steps, an evaluation every 100, patience 1000 (Lin et al. 2020): if steps or epochs are
                     given, these intervals and this patience are used
        """
        steps, given = self.steps, bool(self.steps or self.epochs)
        if not steps:
            passes = math.ceil(PASSES * samples / self.batch_size)
            steps = FEDDF_STEPS if self.epochs else min(max(passes, FEWEST), MOST)
        check = self.check_every or (FEDDF_CHECK if given else max(steps // 8, 1))
        patience = self.patience or (FEDDF_PATIENCE if given else max(steps // 2, 1))
        return replace(self, steps=steps, check_every=check, patience=patience)


class Recipe(Settings, frozen=True, kw_only=True):
    """One way to fuse a round."""

    name: str
    title: str  # one line
    paper: str  # where it comes from
    note: str = ""  # what one should know before choosing it, in one line
    # of what a device counts for to its prototype's median; 0: any
    max_examples_ratio: Annotated[float, within(0, 1e6)] = MAX_EXAMPLES_RATIO
    screen: tuple[str, ...] = ()  # in addition to shapes and finiteness, which intake has checked
    trust: str | None = None  # trust part; None: full trust in all devices
    weigh: str = "examples"
    average: str = "mean"
    bn: Literal["mean", "last"] = "mean"  # or last: BatchNorm's statistics of the last update, as in FedDF's code
    server_momentum: Annotated[float, within(0, 0.999)] = 0.0  # beta of FedAvgM
    # models drawn around the average join the teachers (FedBE)
    sample: Literal["gaussian", "dirichlet"] | None = None
    samples: Annotated[int, within(0, 1000)] = 0
    ensemble: bool = False  # report the accuracy of the received models' ensemble on the aggregator's labelled samples
    teach: str | None = None  # mean-logits, median-logits or mean-probabilities; None: no distillation
    distill: Distillation = Distillation()
    source_optional: bool = False  # without samples it does not teach, and scores use generated latents
    generation: Generation | None = None  # a latent generator, trained from predictors, for the devices to learn from
    refine: Steps = 0  # steps of predictors on generated latents, if there are no samples to distill from
    # mean logits by label for them: over those that have it, or all devices
    label_logits: Literal["seen", "all"] | None = None
    update: str | None = None  # kind of update that devices send, overriding the configuration
    options: Mapping[str, Any] = {}  # of parts, by name
    local: Mapping[str, float] = {}  # defaults sent to devices, which the user may override

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Its parts by kind and name, in the order of the stages."""
        screens = tuple(("screen", name) for name in self.screen)
        stages = (("trust", self.trust), ("weigh", self.weigh), ("average", self.average), ("teach", self.teach))
        return screens + tuple((kind, name) for kind, name in stages if name is not None)

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that its parts need (`aggregator/recipes/parts.py`)."""
        return frozenset().union(*(part_needs(kind, name) for kind, name in self.parts))

    @property
    def uses_source(self) -> bool:
        """Whether the recipe can use unlabeled samples."""
        return "unlabeled" in self.needs

    @property
    def needs_source(self) -> bool:
        """Whether the aggregator needs unlabeled samples."""
        return self.uses_source and not self.source_optional

    @property
    def side_artifact(self) -> str | None:
        """The name under which the side artifact is published."""
        if self.generation is not None:
            return f"generator:{self.generation.noise}"
        return None if self.label_logits is None else "label-logits:mean"

    @property
    def uses_label_counts(self) -> bool:
        """Whether any part uses the devices' label counts."""
        return self.side_artifact is not None or "label_counts" in self.needs

    def check_update(self, kind: str) -> None:
        """Refuse a kind of update that the recipe cannot use."""
        if self.update is not None and kind not in ("state", self.update):  # state is the default
            raise ConfigError(f"recipe {self.name} has devices send {self.update}; leave out update = {kind!r}")
        sent = self.update or kind
        if PERSONAL in self.local and sent in ("predictor", *MODEL_STAYS):
            raise ConfigError(
                f"personal = true, but devices that send {sent} keep models of their own already; leave personal out"
            )
        if kind == "predictor" and self.teach is not None and self.generation is None:
            raise ConfigError(
                f"recipe {self.name} distills from whole models, not from predictor-only updates; "
                "give update = 'state', or a recipe with a generator, such as fedgen"
            )

    def check_asynchronous(self) -> None:
        """Refuse a recipe that asynchronous rounds cannot run: a stale update is one of weights."""
        if self.update in MODEL_STAYS:
            raise ConfigError(
                f"recipe {self.name} has devices send {self.update}, asynchronous rounds need models; "
                "give mode = 'sync', or another recipe"
            )

    @property
    def looks(self) -> bool:
        """Whether labelled samples of the aggregator, if any, affect the result."""
        return (self.teach is not None and not self.distill.swa) or "labels" in self.needs

    def check(self) -> None:
        """Refuse a composition whose parts do not fit together."""
        if "trust" in self.needs and self.trust is None:
            remedy = "give trust = 'two-doubts' or another weigh"
            raise ConfigError(f"recipe {self.name}: weigh = {self.weigh!r} needs a trust part; {remedy}")


_FEDDF = "Lin et al. 2020, arXiv:2006.07242"
_FEDRAD = "Sturluson et al. 2021, FedRAD: Federated Robust Adaptive Distillation, arXiv:2112.01405"
_FEDGEN = "Zhu et al. 2021, arXiv:2105.10056"
_RECIPES = (
    Recipe(name="fedavg", title="example-weighted mean", paper="McMahan et al. 2017, arXiv:1602.05629"),
    Recipe(
        name="fedprox",
        title="example-weighted mean; a proximal term keeps devices near the model they received",
        paper="Li et al. 2020, arXiv:1812.06127",
        local={"prox": 0.003},
    ),
    Recipe(
        name="fedavgm",
        title="example-weighted mean with momentum at the aggregator",
        paper="Hsu et al. 2019, arXiv:1909.06335",
        server_momentum=0.3,
    ),
    Recipe(
        name="feddf",
        title="mean, then distilled from the mean logits of all received models of all prototypes",
        paper=_FEDDF,
        teach="mean-logits",
    ),
    Recipe(
        name="feddf-median",
        title="FedDF with the median of the logits",
        paper=f"{_FEDDF}; {_FEDRAD}",
        teach="median-logits",
    ),
    Recipe(
        name="fedbe",
        title="mean, then distilled from a Bayesian ensemble: received, average and sampled models",
        paper="Chen & Chao 2021, arXiv:2009.01974",
        sample="gaussian",
        samples=10,
        teach="mean-probabilities",
        distill=Distillation(schedule="constant", swa=25),
    ),
    Recipe(
        name="fedrad",
        title="mean weighted by median scores, then distilled from the median logits: robust to faulty devices",
        paper=_FEDRAD,
        note=(
            "excludes nobody, it only weighs devices down: at its defaults robust to faulty devices (random weights), "
            "partly to a third with wrong labels, which keep part of the average; not to backdoors or a majority"
        ),
        weigh="median-score",
        teach="median-logits",
    ),
    Recipe(
        name="comed",
        title="coordinate-wise median",
        paper="Yin et al. 2018, arXiv:1803.01498",
        note=(
            "a median forgets what only few devices know: with label-skewed data it is up to 14 points below FedAvg "
            "(docs/results/defaults.md)"
        ),
        weigh="uniform",
        average="median",
    ),
    Recipe(
        name="multi-krum",
        title="mean of the updates closest to their neighbours",
        paper="Blanchard et al. 2017, arXiv:1703.02757",
        weigh="multi-krum",
    ),
    Recipe(
        name="afa",
        title="mean of the updates of similar direction, weighted by trust that carries over from round to round",
        paper="Muñoz-González et al. 2019, arXiv:1909.05125",
        screen=("afa-blocked",),
        weigh="afa",
    ),
    Recipe(
        name="fedmgda",
        title="mean with learned weights such that no device's loss increases",
        paper=f"Hu et al. 2020, arXiv:2006.11489; FedMGDA++ of {_FEDRAD}",
        screen=("fedmgda-blocked",),
        weigh="fedmgda",
    ),
    Recipe(
        name="fedma",
        title="matched averaging: neurons are aligned by layer before the mean",
        paper="Wang et al. 2020, arXiv:2002.06440",
        average="matched",
    ),
    Recipe(
        name="fedgen",
        title="mean; a latent generator, trained on the predictors alone, guides the devices",
        paper=_FEDGEN,
        generation=PAPER,
    ),
    Recipe(
        name="fedensemble",
        title="mean; the received models are also scored as an ensemble, by the sum of their logits",
        paper=f"baseline of {_FEDGEN}",
        ensemble=True,
    ),
    Recipe(
        name="feddistill",
        title="no model is shared: devices learn from the fleet's mean logits of each label",
        paper=f"Jeong et al. 2018, arXiv:1811.11479; baseline of {_FEDGEN}",
        note="shares no weights: expect the accuracy of local training, not of FedAvg",
        label_logits="seen",
        update="logits",
        local={"label_logits": 0.1},  # at the authors' 1 below local training: docs/results/defaults.md
    ),
    Recipe(
        name="feddistill+",
        title="mean; devices learn from the fleet's mean logits of each label too",
        paper=f"Jeong et al. 2018, arXiv:1811.11479; baseline of {_FEDGEN}",
        label_logits="seen",
        local={"label_logits": 0.03},  # at the authors' 1 below FedAvg with skewed labels: docs/results/defaults.md
    ),
    Recipe(
        name="local",
        title="no fusion: each device trains alone, a baseline",
        paper="baseline of Yu et al. 2020, arXiv:2002.04758",
        update="none",
    ),
    Recipe(
        name="edgestill",
        title="mean of trusted devices (two signals exclude one); distilled on samples if there are any; a generator",
        paper=f"{_FEDGEN}; {_FEDDF}; {_FEDRAD}",
        trust="two-doubts",
        weigh="trust",
        teach="mean-logits",
        source_optional=True,
        generation=PAPER,
        refine=20,
    ),
)
#: The built-in ones by name.
RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in _RECIPES})
GROUP = "edgestill.recipes"


def recipe_names() -> tuple[str, ...]:
    """Names of all recipes: the built-in ones, then users'."""
    users = {point.name for point in entry_points(group=GROUP)}
    return (*RECIPES, *sorted(users - RECIPES.keys()), *own_code.names("recipe"))


def find_recipe(name: str, overrides: Mapping[str, Any] = MappingProxyType({})) -> Recipe:
    """The recipe called `name`, with `overrides` in place of its own fields: flat, including those of distillation."""
    from aggregator.recipes.overrides import override

    recipe = override(RECIPES.get(name) or own_code.found("recipe", name) or _users_recipe(name), overrides)
    recipe.check()
    return recipe


@functools.cache  # looking through installed packages takes milliseconds
def _users_recipe(name: str) -> Recipe:
    points = tuple(entry_points(group=GROUP, name=name))
    if not points:
        known = recipe_names()
        raise ConfigError(f"unknown recipe {name!r}{did_you_mean(name, known)}; known: {' '.join(known)}")
    if len(points) > 1:
        raise ConfigError(f"recipe {name} comes from {' and '.join(map(origin, points))}; uninstall one")
    found = load_object(points[0], f"recipe {name}")
    if not isinstance(found, Recipe):
        raise ConfigError(f"{origin(points[0])}: recipe {name} is not a Recipe but a {type(found).__name__}")
    return replace(found, name=name)
