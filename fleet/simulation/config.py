"""What a simulation is told: one value behind flags, `[simulate]` of a file, variables, sweeps and programs.

A field that is annotated by a panel is a setting (`fleet/simulation/settings/`); its text, bounds and default are here
and nowhere else. Light to import: the command line reads it for `--help`.
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
from fleet.simulation.settings.panels import in_fleet, in_fusion, in_output, in_time
from fleet.virtual.config import VirtualTime

if TYPE_CHECKING:
    from fleet.attacks.builtin import Attack

__all__ = ["DEFAULT_ENGINE", "ENGINES", "FLOATS", "SCORE_DEVICES", "TRANSPORTS", "UPDATES", "SimulationConfig"]

FLOATS = ("auto", "fp16", "fp32")
TRANSPORTS = ("memory", "mqtt")
UPDATES = ("state", "predictor")
SCORE_DEVICES = ("last", "every", "never")
ENGINES = ("inline", "processes", "ray")
DEFAULT_ENGINE = "processes" if sys.platform == "linux" else "inline"  # elsewhere, forking beside torch is not safe
PARTITIONS = "dirichlet, iid, iid-skew, shards, fedgen, feddf, fedrad, fedrad-iid"
FROM_0, FROM_2 = Range(0, SAMPLES.most), Range(2, SAMPLES.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """A simulated fleet: who has which data and model, how they train, how long."""

    dataset: Annotated[str, in_fleet("Name (see `edgestill data list`) or path of a dataset.")] = "digits"
    devices: Annotated[  # N
        int, in_fleet("How many devices, or boards, such as rpi4:10,rpi-zero2w:5.", DEVICES, kind=str)
    ] = 12
    prototypes: Annotated[  # device i has prototype i mod P
        tuple[str, ...],
        in_fleet(
            "architecture:precision, comma-separated, dealt to the devices in turn (`edgestill prototype list`).",
            parse=text.parse_prototypes,
        ),
    ] = ("cnn:fp32", "mlp:fp32", "cnn:w1")
    training: LocalTraining = DEFAULTS
    partition: Annotated[str, in_fleet(f"Who gets which samples: {PARTITIONS}.")] = "dirichlet"
    alpha: Annotated[float, in_fleet("Of the Dirichlet draw: 0.1 very uneven, 100 even.", ALPHA)] = 1.0
    options: Annotated[
        Mapping[str, int | float | bool],
        in_fleet(
            "Of the partition, such as min_size=0; may be repeated (docs/data.md).",
            key="option",
            parse=text.parse_partition_options,
        ),
    ] = field(default_factory=dict)
    latent: Annotated[int, in_fleet("Width D of the latent that all prototypes share.", LATENT)] = 32
    rounds: Annotated[int, in_fleet("How many rounds.", ROUNDS)] = 10  # T
    fraction: Annotated[float, in_fleet("Share of each prototype's devices that a round invites.")] = 1.0  # C
    recipe: Annotated[str, in_fusion("How updates are fused (`edgestill recipe list`).")] = "fedavg"
    fusion: Annotated[
        Mapping[str, Any],
        in_fusion(
            "Override a field of the recipe, such as steps=200; may be repeated (docs/fusion.md).",
            parse=text.parse_fusion,
        ),
    ] = field(default_factory=dict)
    source: Annotated[
        str, in_fusion("The aggregator's unlabeled samples: auto (withheld), none, noise, a dataset's name, a path.")
    ] = "auto"
    source_size: Annotated[int, in_fusion("How many of them [all; 10000 of noise].", SAMPLES)] | None = None
    source_fraction: float = 1.0
    source_classes: Annotated[
        tuple[int, ...], in_fusion("Only those of these classes, such as 0,1,2.", parse=text.parse_classes)
    ] = ()
    validation_size: (
        Annotated[
            int,
            in_fusion(
                "Labelled samples withheld for early stopping and screens [a tenth, where the recipe looks at them].",
                FROM_0,
            ),
        ]
        | None
    ) = None
    update: Annotated[str, in_fusion("What devices send: state, or predictor, and keep their extractors.")] = "state"
    count_epsilon: (
        Annotated[
            float,
            in_fusion("Noise on the devices' label counts: epsilon of differential privacy.", Range(1e-6, WEIGHT.most)),
        ]
        | None
    ) = None
    count_bins: Annotated[int, in_fusion("Label counts rounded to multiples of this.", FROM_2)] | None = None
    attack: Annotated[  # fleet/attacks/builtin.py
        str, in_fusion("Adversarial devices, such as faulty:6,malicious:4 (docs/simulate.md).")
    ] = ""
    compute: Annotated[str, in_fusion("What fusion runs on: auto, cpu, cuda, cuda:1, mps.")] = "auto"
    processes: Annotated[int, in_fusion("Prototypes that distill at once; at least one per worker.", PROCESSES)] = 1
    score_ensemble: bool = True  # report the teachers' accuracy together; one more pass of theirs
    floats: Annotated[
        str,
        in_output(
            "What is not quantized travels as fp16 or fp32; auto: fp32 for fp32 prototypes, fp16 for the others."
        ),
    ] = "auto"
    seed: Annotated[int, in_fleet("The same seed gives the same run.", SEED)] = 0
    engine: Annotated[  # fleet/engines/; inline for programs, DEFAULT_ENGINE for settings
        str,
        in_fleet(
            "Where devices train: inline, processes, ray. The models are the same [processes, on Linux].", written=None
        ),
    ] = "inline"
    workers: Annotated[int, in_fleet("Processes that train devices; 0: one per core.", WORKERS)] = 0
    batch_devices: Annotated[
        int,
        in_fleet(
            "Devices that a worker trains as one computation: auto (perceptrons), off, a number.",
            Range(0, DEVICES.most),
            parse=text.parse_batch,
            written="auto",
        ),
    ] = 0
    address: Annotated[
        str, in_fleet("With --engine ray: of a cluster; default: Ray is started here, open to the network.")
    ] = ""
    score_every: Annotated[int, in_fleet("Score models every so many rounds, and after the last.", ROUNDS)] = 1
    score_devices: Annotated[  # own_slice.py
        str,
        in_fleet(
            "Score every device's own model, on its own slice and the whole test set: last (round), every, never."
        ),
    ] = "last"
    transport: Annotated[
        str, in_fleet("memory: on this machine alone. mqtt: broker, aggregator and agents as real processes.")
    ] = "memory"
    virtual: Annotated[
        VirtualTime | None,
        in_time(
            "Tell how long the boards of --devices would take; rounds end as theirs would.",
            key="virtual_clock",
            kind=bool,
        ),
    ] = None

    def __post_init__(self) -> None:
        from fleet.simulation.settings.checks import check_simulation

        check_simulation(self)

    @property
    def attackers(self) -> dict[int, Attack]:
        """Which devices are adversarial, by the device's number."""
        from fleet.attacks.builtin import parse_attacks, seat

        return seat(parse_attacks(self.attack), self.devices, prototypes=len(self.prototypes), seed=self.seed)

    def scores(self, number: int) -> bool:
        """Whether the models of round `number` are scored on the test set."""
        return number % self.score_every == 0 or number == self.rounds

    @property
    def keeps_models(self) -> bool:
        """Whether devices go on from models of their own: an extractor, or all of it."""
        from aggregator.recipes.catalogue import find_recipe
        from edge_agent.state.store import KEEPING

        return (find_recipe(self.recipe, self.fusion).update or self.update) in KEEPING

    def scores_devices(self, number: int) -> bool:
        """Whether the devices' own models are scored after round `number`.

        Where devices keep models of their own, these are what a run is judged by: `last` scores them whenever the
        fused models are scored.
        """
        if self.score_devices == "never" or not self.scores(number):
            return False
        return self.score_devices == "every" or self.keeps_models or number == self.rounds

    def floats_of(self, quantized: bool) -> str:
        """The float dtype on the wire for a prototype."""
        if self.floats == "auto":
            return "fp16" if quantized else "fp32"
        return self.floats

    def to_json(self) -> dict[str, Any]:
        """The configuration as `run.json` holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> SimulationConfig:
        """The configuration that `to_json` gave."""
        try:
            given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
            given["training"] = LocalTraining(**facts["training"])
            if facts.get("virtual") is not None:
                told = facts["virtual"]
                given["virtual"] = VirtualTime(**{**told, "boards": tuple(told["boards"])})
            return cls(**given)
        except (KeyError, TypeError) as error:
            raise ConfigError(f"a configuration of another version: {error}; start the run anew") from error
