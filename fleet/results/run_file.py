"""`run.json`: the configuration of a simulation, its devices, and its results round by round.

    {
      "schema": 2,
      "versions": {"edgestill": "0.1.0", "torch": "2.13.0", ...},
      "config": {"dataset": "digits", "devices": 12, "prototypes": ["cnn:fp32", ...], "seed": 0, ...},
      "fleet": [{"device": "sim-000", "prototype": "cnn:fp32", "examples": 120, "labels": [12, 9, ...]}, ...],
      "rounds": [
        {
          "round": 1,
          "prototypes": {
            "cnn:w1": {"accuracy": 0.78, "loss": 0.62, "accuracy_float": 0.81, "train_loss": 0.9,
                       "devices": 4, "bytes_up": 7104, "bytes_down": 14980}
          },
          "bytes_up": 131072, "bytes_down": 262144, "seconds": 1.2,
          "seconds_by": {"train": 0.7, "encode": 0.1, "screen": 0.0, "weigh": 0.0, "average": 0.1, ...},
          "devices": {"sim-000": {"weight": 0.26, "score": 0.08, "screened": null, "capped": null}, ...},
          "lost": {"sim-007": "training diverged: the gradient is not finite"}
        }
      ]
    }

`accuracy` and `loss` are those of the fused model as a board runs it, at the prototype's own precision, on the whole
test set; `accuracy_float` is that of the same model with full-precision weights, and absent for fp32. Bytes are those
of the encoded messages. Recipes that distill add `average_accuracy` (of the average that the student started from, as a
board would run it), `ensemble_accuracy` (of the ensemble of all teachers) and `distill_steps`. Where devices keep their
extractors, or their whole models, `accuracy` is of little use; `device_accuracy`, equal to `whole_accuracy`, is added.

`own_accuracy` and `whole_accuracy` of a device are those of its own model after its training in that round, at its
precision: on test samples weighted by its own labels, and on the whole test set (`fleet/simulation/own_slice.py`).
Those of a prototype are the means over its honest devices that answered; `own_worst`, `own_best`, `whole_worst` and
`whole_best` the extremes. `--score-devices` selects the rounds that have them.

`devices` also records the role of each update in fusion: its share of its prototype's average (of the average of
predictors, if it sends only that), its median score if the recipe computes one, why it was excluded, and the claimed
and counted examples if it was capped (`aggregator/fusion/example_cap.py`). `lost`, if present, lists the invited
devices without a usable update, each with the reason. `side_artifact_bytes`, if present, is the size of the generator
or the logits by label that every device of the next round receives; it is included in the next round's `bytes_down`.
The whole file is rewritten after every round, so an interrupted run keeps its completed rounds.

Schema 1 had the accuracy with full-precision weights as `accuracy`, and `accuracy_quantized` next to it; `read_run`
converts such a file to the current names, without the loss and the average's accuracy, which it has for float weights
only; `device_accuracy` remains that with float weights.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from core.errors import ConfigError, DataError
from core.files import read_regular, write_atomic
from core.versions import versions

__all__ = [
    "SCHEMA",
    "PrototypeResult",
    "RoundResult",
    "Run",
    "claim_folder",
    "essence",
    "has_personal_models",
    "read_run",
    "reported_metrics",
    "write_run",
]

SCHEMA = 2
MAX_RUN = 2**30  # bytes of a run.json: ten thousand devices take a megabyte per round


@dataclass(frozen=True, slots=True, kw_only=True)
class PrototypeResult:
    """One prototype in one round."""

    accuracy: float  # of the model as a board runs it, at the prototype's own precision
    loss: float
    train_loss: float | None  # mean over its devices, weighted by examples; None: not finite
    devices: int  # number of devices that answered
    bytes_up: int
    bytes_down: int
    accuracy_float: float | None = None  # with full-precision weights; None: boards run those
    average_accuracy: float | None = None  # of the average that the student started from
    ensemble_accuracy: float | None = None  # of the ensemble of all teachers
    distill_steps: int | None = None
    device_accuracy: float | None = None  # whole_accuracy, if devices keep local models
    own_accuracy: float | None = None  # mean over its devices' own models, each on its own slice of the test set
    own_worst: float | None = None
    own_best: float | None = None
    whole_accuracy: float | None = None  # mean of the same models on the whole test set
    whole_worst: float | None = None
    whole_best: float | None = None

    @property
    def quality(self) -> float:
        """The relevant accuracy: of its model, or of the devices' own models if they keep local ones."""
        return self.accuracy if self.device_accuracy is None else self.device_accuracy

    @property
    def full_precision(self) -> float:
        """The accuracy with full-precision weights, as papers report it."""
        return self.accuracy if self.accuracy_float is None else self.accuracy_float


def reported_metrics(metrics: Mapping[str, float]) -> dict[str, Any]:
    """The metrics of fusion that are fields of `PrototypeResult`."""
    accuracies: dict[str, Any] = {n: metrics[n] for n in ("average_accuracy", "ensemble_accuracy") if n in metrics}
    return {**accuracies, **({"distill_steps": int(metrics["distill_steps"])} if "distill_steps" in metrics else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One round."""

    round: int
    prototypes: dict[str, PrototypeResult]
    seconds: float
    devices: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # role of each in fusion: weight, score, screened, capped
    seconds_by: dict[str, float] = field(default_factory=dict)
    virtual: dict[str, Any] = field(default_factory=dict)  # virtual time and cost (fleet/virtual/)
    lost: dict[str, str] = field(default_factory=dict)  # devices without an update, with the reason
    warnings: list[str] = field(default_factory=list)  # one line each
    side_artifact_bytes: int = 0  # of the generator, or the logits by label, sent to the next round's devices

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> RoundResult:
        """The inverse of `to_json`."""
        unscored = {"accuracy": math.nan, "loss": math.nan, "train_loss": None}
        try:
            return cls(
                round=int(facts["round"]),
                prototypes={n: PrototypeResult(**{**unscored, **fields}) for n, fields in facts["prototypes"].items()},
                seconds=float(facts["seconds"]),
                devices=dict(facts["devices"]),
                seconds_by={stage: float(seconds) for stage, seconds in facts["seconds_by"].items()},
                lost={str(device): str(reason) for device, reason in facts.get("lost", {}).items()},
                warnings=[str(text) for text in facts.get("warnings", [])],
                side_artifact_bytes=int(facts.get("side_artifact_bytes", facts.get("guide_bytes", 0))),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"run.json: a round that cannot be read ({error}); start a new run") from error

    @property
    def asked(self) -> int:
        """Devices that answered or were lost."""
        return sum(p.devices for p in self.prototypes.values()) + len(self.lost)

    @property
    def bytes_up(self) -> int:
        """Bytes of all updates."""
        return sum(p.bytes_up for p in self.prototypes.values())

    @property
    def bytes_down(self) -> int:
        """Bytes of all downloads."""
        return sum(p.bytes_down for p in self.prototypes.values())

    def to_json(self) -> dict[str, Any]:
        """As in `run.json`."""
        prototypes = {
            name: {k: v for k, v in asdict(result).items() if v is not None and math.isfinite(v)}  # JSON has no NaN
            for name, result in self.prototypes.items()
        }
        return {
            "round": self.round,
            "prototypes": prototypes,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "seconds": round(self.seconds, 3),
            "seconds_by": {stage: round(seconds, 3) for stage, seconds in self.seconds_by.items()},
            "devices": {
                name: {k: v for k, v in facts.items() if v is not None} for name, facts in self.devices.items()
            },
            **({"lost": self.lost} if self.lost else {}),
            **({"warnings": self.warnings} if self.warnings else {}),
            **({"virtual": self.virtual} if self.virtual else {}),
            **({"side_artifact_bytes": self.side_artifact_bytes} if self.side_artifact_bytes else {}),
        }


@dataclass(slots=True, kw_only=True)
class Run:
    """A run and its rounds so far."""

    config: dict[str, Any]
    fleet: list[dict[str, Any]]
    rounds: list[RoundResult] = field(default_factory=list)
    _head: str = field(default="", repr=False, compare=False)  # cached text of everything before the rounds
    _texts: list[str] = field(default_factory=list, repr=False, compare=False)  # cached texts of earlier rounds

    def to_json(self) -> dict[str, Any]:
        """As in `run.json`."""
        return {**self._facts(), "rounds": [r.to_json() for r in self.rounds]}

    def _facts(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "versions": versions(), "config": self.config, "fleet": self.fleet}

    def text(self) -> str:
        """The text of `run.json`, a line per device and per round; earlier parts are cached.

        Ten thousand devices are a megabyte of text: encoding it again would be the largest cost of a small round.
        """
        if not self._head:
            facts = self._facts()
            fleet = _lines([json.dumps(device) for device in facts.pop("fleet")])
            self._head = json.dumps(facts, indent=1).removesuffix("\n}") + f',\n "fleet": {fleet},\n "rounds": '
        self._texts += [json.dumps(result.to_json()) for result in self.rounds[len(self._texts) :]]
        return f"{self._head}{_lines(self._texts)}\n}}\n"


def has_personal_models(config: Mapping[str, Any]) -> bool:
    """Whether the devices of a run with this configuration keep personal models, which are scored as their own."""
    fusion = config.get("fusion")
    return isinstance(fusion, Mapping) and fusion.get("personal") is True


def write_run(run: Run, folder: Path) -> Path:
    """Write `folder/run.json` atomically."""
    path = folder / "run.json"
    write_atomic(path, run.text())
    return path


def read_run(path: Path) -> dict[str, Any]:
    """Read a `run.json`, or the one in the folder `path`; older schemas are converted to the current names."""
    if path.is_dir():
        _check_is_run(path)
        path = path / "run.json"
    try:
        facts = json.loads(read_regular(path, MAX_RUN))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: not a readable run.json ({why}); give the --out folder of a simulation") from error
    if not isinstance(facts, dict) or facts.get("schema") not in range(1, SCHEMA + 1):
        raise DataError(f"{path}: not a run.json of schema {SCHEMA}; give the --out folder of a simulation")
    for name, kind in (("config", dict), ("fleet", list), ("rounds", list)):
        if not isinstance(facts.get(name), kind):
            raise DataError(f"{path}: {name!r} is missing or is no {kind.__name__}; start a new run")
    return _from_schema_1(facts) if facts["schema"] == 1 else facts


def _check_is_run(folder: Path) -> None:
    """Refuse the folder of something else that has runs in it or around it."""
    if (folder / "run.json").exists():
        return
    inside = folder if folder.name == "runs" else folder / "runs"
    if inside.is_dir() and any(inside.glob("*/run.json")):
        raise DataError(f"{folder}: the folder of a sweep, not of a run; give the runs in it: {inside}/*")
    if (folder.resolve().parent / "run.json").exists():
        raise DataError(f"{folder}: a part of a run; give the whole, {folder.parent}")


def _from_schema_1(facts: dict[str, Any]) -> dict[str, Any]:
    """Convert to the current names; invalid values stay for later checks."""

    def result(p: Any) -> Any:
        if not isinstance(p, dict) or "accuracy_quantized" not in p:
            return p
        kept = {k: v for k, v in p.items() if k not in ("accuracy_quantized", "loss", "average_accuracy")}
        return {**kept, "accuracy": p["accuracy_quantized"], "accuracy_float": p.get("accuracy")}

    def one_round(r: Any) -> Any:
        if not isinstance(r, dict) or not isinstance(r.get("prototypes"), dict):
            return r
        return {**r, "prototypes": {name: result(p) for name, p in r["prototypes"].items()}}

    return {**facts, "rounds": [one_round(r) for r in facts["rounds"]]}


def claim_folder(folder: Path, config: dict[str, Any], *, force: bool = False) -> None:
    """Prepare `folder` before any work; refuse to replace a run with another configuration."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {folder}: {error.strerror}; choose another folder") from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"--out {folder}: cannot be written to; choose another folder")
    if force or not (folder / "run.json").exists():
        return
    if essence(read_run(folder)["config"]) != essence(config):
        raise ConfigError(f"--out {folder}: holds a run with another configuration; choose another folder or --force")


WHERE = ("engine", "workers", "batch_devices", "address", "track")
ADDED = ("own_models", "objective", "train")  # of later versions: empty, they mean what a run.json without them means


def essence(config: Mapping[str, Any]) -> Any:
    """The part of the configuration that determines the models, without engine, workers and trackers."""
    return json.loads(
        json.dumps({name: v for name, v in config.items() if name not in WHERE and (v or name not in ADDED)})
    )


def _lines(texts: Sequence[str]) -> str:
    return "[" + ",".join(f"\n  {text}" for text in texts) + ("\n ]" if texts else "]")
