"""What a simulation is told: every flag of `edgestill simulate`, checked once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from aggregator.recipes.catalogue import find_recipe
from core.errors import ConfigError, did_you_mean
from core.limits import (
    ALPHA,
    DEVICES,
    LATENT,
    PROCESSES,
    ROUNDS,
    SAMPLES,
    SEED,
    WEIGHT,
    WORKERS,
    Range,
)
from edge_agent.state.store import KEEPING
from edge_agent.training.params import LocalTraining
from fleet.attacks.builtin import Attack, check_over_mqtt, parse_attacks, seat
from fleet.virtual.config import VirtualTime
from models.spec import parse_prototype

__all__ = ["DEFAULT_ENGINE", "ENGINES", "FLOATS", "SCORE_DEVICES", "TRANSPORTS", "UPDATES", "SimulationConfig"]

FLOATS = ("auto", "fp16", "fp32")
TRANSPORTS = ("memory", "mqtt")
UPDATES = ("state", "predictor")
SCORE_DEVICES = ("last", "every", "never")
ENGINES = ("inline", "processes", "ray")
DEFAULT_ENGINE = "processes" if sys.platform == "linux" else "inline"  # elsewhere, forking beside torch is not safe


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """A simulated fleet: who has which data and model, how they train, how long."""

    dataset: str
    devices: int  # N
    prototypes: tuple[str, ...]  # device i has prototype i mod P
    training: LocalTraining
    partition: str = "dirichlet"
    alpha: float = 1.0  # of the Dirichlet draw: small is heterogeneous
    options: Mapping[str, int | float | bool] = field(default_factory=dict)  # of the partition
    rounds: int = 10  # T
    fraction: float = 1.0  # C of McMahan et al.: the share of each prototype's devices that a round invites
    recipe: str = "fedavg"
    fusion: Mapping[str, Any] = field(default_factory=dict)  # fields of the recipe, overridden
    source: str = "auto"  # the aggregator's unlabeled samples, for recipes that need some
    source_size: int | None = None
    source_fraction: float = 1.0
    source_classes: tuple[int, ...] = ()
    validation_size: int | None = None  # labelled samples withheld for it; None: a tenth, for recipes that look at them
    update: str = "state"  # or predictor: extractors stay on the devices
    count_epsilon: float | None = None  # label counts leave the devices with noise of this epsilon
    count_bins: int | None = None  # and rounded to multiples of this
    score_devices: str = "last"  # when the devices' own models are scored (own_slice.py), or every, or never
    attack: str = ""  # faulty:6,malicious:4 (fleet/attacks/builtin.py)
    compute: str = "auto"  # what fusion runs on
    processes: int = 1  # prototypes that distill at once
    score_ensemble: bool = True  # report the teachers' accuracy together; one more pass of theirs
    latent: int = 32  # D, the fleet-wide latent width
    floats: str = "auto"  # what is not quantized travels as; auto: fp32 for fp32 prototypes, fp16 for the others
    seed: int = 0
    transport: str = "memory"  # or mqtt: broker, aggregator and agents as processes
    engine: str = "inline"  # where devices train (fleet/engines/): the models are the same
    workers: int = 0  # of the engine; 0: one per core
    batch_devices: int = 0  # that a worker trains as one computation; 0: as many as pay, 1: none
    address: str = ""  # of the Ray cluster; without one, Ray is started on this machine
    score_every: int = 1  # rounds; the last round is always scored
    virtual: VirtualTime | None = None  # how long it would take on boards

    def __post_init__(self) -> None:
        if not self.prototypes:
            raise ConfigError("no prototypes; give at least one, such as --prototypes cnn:fp32")
        if len(set(self.prototypes)) < len(self.prototypes):
            raise ConfigError(f"prototype given twice in {','.join(self.prototypes)}; each may be given once")
        for prototype in self.prototypes:
            arch, precision = parse_prototype(prototype)
            if prototype != f"{arch}:{precision}":
                raise ConfigError(f"prototype {prototype!r}: give its precision too, such as {arch}:{precision}")
        for limits, value, what in self._numbers():
            limits.check(value, what)
        if self.devices < len(self.prototypes):
            raise ConfigError(
                f"{self.devices} devices for {len(self.prototypes)} prototypes; give each one at least one"
            )
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction {self.fraction}; give a number above 0 and at most 1")
        if self.transport not in TRANSPORTS:
            raise ConfigError(f"transport {self.transport!r}; known: {' '.join(TRANSPORTS)}")
        if self.floats not in FLOATS:
            raise ConfigError(f"floats {self.floats!r}; known: {' '.join(FLOATS)}")
        if self.score_devices not in SCORE_DEVICES:
            raise ConfigError(f"--score-devices {self.score_devices!r}; known: {' '.join(SCORE_DEVICES)}")
        if self.update not in UPDATES:
            raise ConfigError(f"update {self.update!r}; known: {' '.join(UPDATES)}")
        find_recipe(self.recipe, self.fusion).check_update(self.update)
        if self.engine not in ENGINES:
            raise ConfigError(f"engine {self.engine!r}; known: {' '.join(ENGINES)}{did_you_mean(self.engine, ENGINES)}")
        if self.address and self.engine != "ray":
            raise ConfigError(f"--address {self.address} goes with --engine ray")
        if self.virtual is not None and self.transport != "memory":
            raise ConfigError("virtual time needs --transport memory: processes over MQTT take real time")
        if self.virtual is not None and len(self.virtual.boards) != self.devices:
            raise ConfigError(f"{len(self.virtual.boards)} boards for {self.devices} devices; give as many")
        if self.virtual is not None and self.virtual.buffer > self.devices:
            raise ConfigError(f"--buffer {self.virtual.buffer}: there are {self.devices} devices; give at most as many")
        orders = parse_attacks(self.attack)
        seat(orders, self.devices, prototypes=len(self.prototypes), seed=self.seed)
        if self.transport == "mqtt":
            check_over_mqtt(orders)

    def _numbers(self) -> tuple[tuple[Range, float | None, str], ...]:
        """Every number with its range, and its name for the message."""
        return (
            (DEVICES, self.devices, "--devices"),
            (ROUNDS, self.rounds, "--rounds"),
            (LATENT, self.latent, "--latent"),
            (ALPHA, self.alpha, "--alpha"),
            (SEED, self.seed, "--seed"),
            (SAMPLES, self.source_size, "--source-size"),
            (Range(0, SAMPLES.most), self.validation_size, "--validation-size"),
            (Range(1e-6, WEIGHT.most), self.count_epsilon, "--count-epsilon"),
            (Range(2, SAMPLES.most), self.count_bins, "--count-bins"),
            (PROCESSES, self.processes, "--processes"),
            (WORKERS, self.workers, "--workers"),
            (Range(0, DEVICES.most), self.batch_devices, "--batch-devices"),
            (ROUNDS, self.score_every, "--score-every"),
            (Range(0, 9999), max(self.source_classes, default=0), "--source-classes"),
        )

    @property
    def attackers(self) -> dict[int, Attack]:
        """Which devices are adversarial, by the device's number."""
        return seat(parse_attacks(self.attack), self.devices, prototypes=len(self.prototypes), seed=self.seed)

    def scores(self, number: int) -> bool:
        """Whether the models of round `number` are scored on the test set."""
        return number % self.score_every == 0 or number == self.rounds

    @property
    def keeps_models(self) -> bool:
        """Whether devices go on from models of their own: an extractor, or all of it."""
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
