"""The configuration of a simulation, shared by flags, `[simulate]` in a file, variables, sweeps and the API.

A field annotated with a panel is a setting (`fleet/simulation/settings/`); its help text, bounds and default are
defined only here. Imports no torch, because the command line reads it for `--help`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from core.errors import ConfigError
from core.limits import ALPHA, DEVICES, LATENT, PROCESSES, ROUNDS, SAMPLES, SEED, WEIGHT, WORKERS, Range
from edge_agent.training.params import DEFAULTS, LocalTraining
from fleet.simulation.settings import text_forms as text
from fleet.simulation.settings.panels import in_fleet, in_fusion, in_output, in_time, in_training
from fleet.virtual.config import VirtualTime

if TYPE_CHECKING:
    from fleet.attacks.builtin import Attack

__all__ = ["DEFAULT_ENGINE", "ENGINES", "FLOATS", "SCORE_DEVICES", "TRANSPORTS", "UPDATES", "SimulationConfig"]

FLOATS = ("auto", "fp16", "fp32")
TRANSPORTS = ("memory", "mqtt")
UPDATES = ("state", "predictor")
SCORE_DEVICES = ("last", "every", "never")
ENGINES = ("inline", "processes", "ray")
DEFAULT_ENGINE = "processes" if sys.platform == "linux" else "inline"  # elsewhere, forking with torch loaded is unsafe
PARTITIONS = "dirichlet, iid, iid-skew, shards, fedgen, feddf, fedrad, fedrad-iid"
FROM_0, FROM_2 = Range(0, SAMPLES.most), Range(2, SAMPLES.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """A simulated fleet: its devices, their data and models, local training, fusion, and the number of rounds."""

    dataset: Annotated[str, in_fleet("Name (see `edgestill data list`) or path of a dataset.")] = "digits"
    devices: Annotated[  # N
        int, in_fleet("Number of devices, or boards such as rpi4:10,rpi-zero2w:5.", DEVICES, kind=str)
    ] = 12
    prototypes: Annotated[  # device i has prototype i mod P
        tuple[str, ...],
        in_fleet(
            "architecture:precision, comma-separated, assigned to devices round-robin (`edgestill prototype list`).",
            parse=text.parse_prototypes,
        ),
    ] = ("cnn:fp32", "mlp:fp32", "cnn:w1")
    own_models: Mapping[str, str] = field(default_factory=dict)  # the files of users' own: {"MyNet": "net.py:MyNet"}
    training: LocalTraining = DEFAULTS
    partition: Annotated[str, in_fleet(f"How samples are split among devices: {PARTITIONS}.")] = "dirichlet"
    alpha: Annotated[float, in_fleet("Dirichlet concentration: 0.1 is very non-IID, 100 close to IID.", ALPHA)] = 1.0
    options: Annotated[
        Mapping[str, int | float | bool],
        in_fleet(
            "Partition option, such as min_size=0; may be repeated (docs/data.md).",
            key="option",
            parse=text.parse_partition_options,
        ),
    ] = field(default_factory=dict)
    latent: Annotated[int, in_fleet("Latent dimension D, shared by all prototypes.", LATENT)] = 32
    rounds: Annotated[int, in_fleet("Number of rounds.", ROUNDS)] = 10  # T
    fraction: Annotated[float, in_fleet("Fraction of each prototype's devices invited to each round.")] = 1.0  # C
    recipe: Annotated[str, in_fusion("How updates are fused (`edgestill recipe list`).")] = "fedavg"
    fusion: Annotated[
        Mapping[str, Any],
        in_fusion(
            "Override a field of the recipe, such as steps=200; may be repeated (docs/fusion.md).",
            parse=text.parse_fusion,
        ),
    ] = field(default_factory=dict)
    source: Annotated[
        str, in_fusion("Unlabeled samples for distillation: auto (held out), none, noise, a dataset's name, a path.")
    ] = "auto"
    source_size: Annotated[int, in_fusion("Number of unlabeled samples [all; 10000 if noise].", SAMPLES)] | None = None
    source_fraction: float = 1.0
    source_classes: Annotated[
        tuple[int, ...], in_fusion("Only unlabeled samples of these classes, such as 0,1,2.", parse=text.parse_classes)
    ] = ()
    validation_size: (
        Annotated[
            int,
            in_fusion(
                "Labelled samples held out for early stopping and screens [10 %, if the recipe uses them].",
                FROM_0,
            ),
        ]
        | None
    ) = None
    update: Annotated[
        str, in_fusion("What devices send: state (whole model) or predictor (extractors stay on devices).")
    ] = "state"
    count_epsilon: (
        Annotated[
            float,
            in_fusion("Add noise to reported label counts: epsilon of differential privacy.", Range(1e-6, WEIGHT.most)),
        ]
        | None
    ) = None
    count_bins: Annotated[int, in_fusion("Round reported label counts to multiples of this.", FROM_2)] | None = None
    attack: Annotated[  # fleet/attacks/builtin.py
        str, in_fusion("Adversarial devices, such as faulty:6,malicious:4 (docs/simulate.md).")
    ] = ""
    processes: Annotated[int, in_fusion("Prototypes distilled in parallel; at least one per worker.", PROCESSES)] = 1
    objective: Annotated[
        str,
        in_training("Own loss of a mini-batch: FILE.py:NAME of a function (logits, y) or (model, x, y) (docs/api.md)."),
    ] = ""
    train: Annotated[
        str, in_training("Own local training loop: FILE.py:NAME of a function (model, x, y, ...) (docs/api.md).")
    ] = ""
    score_ensemble: bool = True  # report the ensemble's accuracy; costs one more pass of every teacher
    floats: Annotated[
        str,
        in_output("Wire dtype of unquantized tensors: fp16, fp32, or auto (fp32 for fp32 prototypes, else fp16)."),
    ] = "auto"
    seed: Annotated[int, in_fleet("Random seed; equal seeds give identical runs.", SEED)] = 0
    compute: Annotated[
        str, in_fleet("Compute device of devices, scores and fusion: auto, cpu, cuda, cuda:1, mps (docs/gpu.md).")
    ] = "auto"
    engine: Annotated[  # fleet/engines/; inline in the API, DEFAULT_ENGINE in settings
        str,
        in_fleet(
            "Where devices train: inline, processes, ray; results are identical [processes, on Linux].", written=None
        ),
    ] = "inline"
    workers: Annotated[int, in_fleet("Number of training processes; 0: one per core.", WORKERS)] = 0
    batch_devices: Annotated[
        int,
        in_fleet(
            "Devices that a worker trains as one stacked computation: auto (MLPs only), off, a number.",
            Range(0, DEVICES.most),
            parse=text.parse_batch,
            written="auto",
        ),
    ] = 0
    address: Annotated[
        str, in_fleet("Address of a Ray cluster (--engine ray); by default Ray starts here, open to the network.")
    ] = ""
    score_every: Annotated[int, in_fleet("Score models every this many rounds, and after the last.", ROUNDS)] = 1
    score_devices: Annotated[  # own_slice.py
        str,
        in_fleet(
            "Rounds that score the devices' own models, on their own slices and the whole test set: last, every, never."
        ),
    ] = "last"
    transport: Annotated[
        str, in_fleet("memory: updates stay in memory. mqtt: broker, aggregator and agents run as real processes.")
    ] = "memory"
    track: Annotated[
        tuple[str, ...],
        in_output("Write every round to a tracker: tensorboard:DIR, mlflow:URI; may be repeated (docs/trackers.md)."),
    ] = ()
    virtual: Annotated[
        VirtualTime | None,
        in_time(
            "Simulate the time that the boards of --devices would take; rounds end by that clock.",
            key="virtual_clock",
            kind=bool,
        ),
    ] = None

    def __post_init__(self) -> None:
        from fleet.simulation.settings.checks import check_simulation

        check_simulation(self)

    @property
    def attackers(self) -> dict[int, Attack]:
        """The adversarial devices and their attacks, by device index."""
        from fleet.attacks.builtin import parse_attacks, seat

        return seat(parse_attacks(self.attack), self.devices, prototypes=len(self.prototypes), seed=self.seed)

    def scores(self, round_number: int) -> bool:
        """Whether the models of round `round_number` are scored on the test set."""
        return round_number % self.score_every == 0 or round_number == self.rounds

    @property
    def keeps_models(self) -> bool:
        """Whether devices keep a local extractor or a local model from round to round."""
        from aggregator.recipes.catalogue import find_recipe
        from edge_agent.state.store import KEEPING

        return (find_recipe(self.recipe, self.fusion).update or self.update) in KEEPING

    def scores_devices(self, round_number: int) -> bool:
        """Whether the devices' own models are scored after round `round_number`.

        Where devices keep local models, those are the result of the run: `last` then scores them whenever the fused
        models are scored.
        """
        if self.score_devices == "never" or not self.scores(round_number):
            return False
        return self.score_devices == "every" or self.keeps_models or round_number == self.rounds

    def floats_of(self, quantized: bool) -> str:
        """The wire dtype of a prototype's unquantized tensors."""
        if self.floats == "auto":
            return "fp16" if quantized else "fp32"
        return self.floats

    def to_json(self) -> dict[str, Any]:
        """The configuration as `run.json` holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> SimulationConfig:
        """The inverse of `to_json`; files of users that it names are executed."""
        from fleet.simulation.own_code.named import lend_files

        lend_files(facts)
        try:
            given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
            given["training"] = LocalTraining(**facts["training"])
            if facts.get("virtual") is not None:
                virtual = facts["virtual"]
                given["virtual"] = VirtualTime(**{**virtual, "boards": tuple(virtual["boards"])})
            return cls(**given)
        except (KeyError, TypeError) as error:
            raise ConfigError(f"a configuration of another version: {error}; start a new run") from error
