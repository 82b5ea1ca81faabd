"""What a simulation is told: every flag of `edgestill simulate`, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edge_agent.hyper import LocalTraining
from models.spec import parse_prototype
from wire.errors import ConfigError

__all__ = ["FLOATS", "TRANSPORTS", "SimulationConfig"]

FLOATS = ("auto", "fp16", "fp32")
TRANSPORTS = ("memory", "mqtt")


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
    latent: int = 32  # D, the fleet-wide latent width
    floats: str = "auto"  # what is not quantized travels as; auto: fp32 for fp32 prototypes, fp16 for the others
    seed: int = 0
    transport: str = "memory"  # or mqtt: broker, aggregator and agents as processes

    def __post_init__(self) -> None:
        if not self.prototypes:
            raise ConfigError("no prototypes; give at least one, such as --prototypes cnn:fp32")
        if len(set(self.prototypes)) < len(self.prototypes):
            raise ConfigError(f"prototype given twice in {','.join(self.prototypes)}; each may be given once")
        for prototype in self.prototypes:
            parse_prototype(prototype)
        if self.devices < len(self.prototypes):
            raise ConfigError(
                f"{self.devices} devices for {len(self.prototypes)} prototypes; give each one at least one"
            )
        if self.rounds < 1:
            raise ConfigError(f"{self.rounds} rounds; give at least 1")
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction {self.fraction}; give a number above 0 and at most 1")
        if not self.alpha > 0:
            raise ConfigError(f"alpha {self.alpha}; give a positive number, small for heterogeneous devices")
        if self.latent < 1:
            raise ConfigError(f"latent width {self.latent}; give at least 1")
        if self.transport not in TRANSPORTS:
            raise ConfigError(f"transport {self.transport!r}; known: {' '.join(TRANSPORTS)}")
        if self.floats not in FLOATS:
            raise ConfigError(f"floats {self.floats!r}; known: {' '.join(FLOATS)}")

    def floats_of(self, quantized: bool) -> str:
        """The float dtype on the wire for a prototype."""
        if self.floats == "auto":
            return "fp16" if quantized else "fp32"
        return self.floats

    def to_json(self) -> dict[str, Any]:
        """The configuration as `run.json` holds it."""
        return asdict(self)
