"""A run of a simulated fleet: its rows, its figure and report, its models."""

from __future__ import annotations

import copy
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError, DataError, did_you_mean
from fleet.results.run_file import RoundResult, read_run
from fleet.results.run_file import Run as Recorded

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from edgestill.api.model import TrainedModel
    from fleet.data import Dataset
    from fleet.results.curves import Curves
    from fleet.simulation.config import SimulationConfig
    from fleet.simulation.simulation import Simulation
    from models.split import Prototype

__all__ = ["Final", "Run", "RunInterrupted", "frame", "load_run"]


@dataclass(slots=True, kw_only=True)
class Final:
    """The models after a round, and what they were trained on."""

    round: int
    states: Mapping[str, Mapping[str, Tensor]]  # by prototype
    networks: Mapping[str, Prototype]
    dataset: Dataset


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C in a script: `run` has the completed rounds."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"interrupted after {len(run.rounds)} rounds")
        self.run = run


class Run:
    """The results of `simulate`, or of `load_run`; of an interrupted run, those of the completed rounds."""

    def __init__(
        self,
        recorded: Recorded,
        final: Final | Callable[[], Final],
        *,
        out: Path | None = None,
        interrupted: bool = False,
    ) -> None:
        self.recorded, self._final = recorded, final
        self.out = out
        self.interrupted = interrupted

    @classmethod
    def of(cls, simulation: Simulation, recorded: Recorded, out: Path | None) -> Run:
        """The run of a fleet that is being simulated."""
        return cls(recorded, _held(simulation, len(recorded.rounds)), out=out)

    def hold(self, simulation: Simulation, round_number: int) -> None:
        """Take the fleet's current models as those of this round."""
        self._final = _held(simulation, round_number)

    def __repr__(self) -> str:
        c, done = self.config, len(self.recorded.rounds)
        last = self.recorded.rounds[-1].prototypes if done else {}
        scores = "".join(f", {name} {100 * p.quality:.1f} %" for name, p in last.items() if math.isfinite(p.quality))
        cut = ", interrupted" if self.interrupted else ""
        return f"<Run {c['dataset']}, {c['devices']} devices, {c['recipe']}: round {done}/{c['rounds']}{scores}{cut}>"

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, as in `run.json`."""
        return self.recorded.config

    @property
    def fleet(self) -> list[dict[str, Any]]:
        """The devices: prototype, number of examples and label counts of each, and its attack if it has one."""
        return self.recorded.fleet

    @property
    def rounds(self) -> Sequence[RoundResult]:
        """The completed rounds with everything that is known of them (`fleet/results/run_file.py`)."""
        return self.recorded.rounds

    @property
    def prototypes(self) -> tuple[str, ...]:
        """The names of the prototypes."""
        return tuple(self.config["prototypes"])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per round and prototype; None where a value was not measured."""
        return [row for result in self.recorded.rounds for row in rows_of(result)]

    @property
    def history(self) -> pd.DataFrame:
        """`rows` as a DataFrame; needs pandas."""
        return frame(self.rows)

    def summary(self) -> str:
        """What `edgestill simulate` prints at the end: accuracies, traffic, and the seconds of every stage."""
        from edgestill.cli.run_summary import print_summary

        printed = io.StringIO()
        with redirect_stdout(printed):  # no terminal: without colours, and whole
            print_summary(self.recorded)
        return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())

    def plot(self, path: str | Path | None = None) -> Curves:
        """A figure of the accuracies by round, which notebooks show; with `path`, it is written as PNG too."""
        from fleet.results.curves import curves_of, draw_curves

        if not self.recorded.rounds:
            raise DataError("the run has no round yet, so there is nothing to plot")
        if path is not None:
            draw_curves(self.recorded, Path(path))
        return curves_of(self.recorded)

    def report(self, path: str | Path, *, target: float | None = None) -> Path:
        """Write the HTML report of the run, and its figures as PNG; `target` is an accuracy in %."""
        from core.files import named_file
        from fleet.report.facts import facts_of
        from fleet.report.summary import default_target
        from fleet.report.write import check_out, write_report

        path = named_file(path)
        check_out(path)
        if target is not None and not 0 < target <= 100:
            raise ConfigError(f"target {target:g}: give an accuracy in % above 0 and up to 100, such as 90")
        facts = facts_of(json.loads(self.recorded.text()), self.out or "this run", path.stem)
        goal = default_target([facts]) if target is None else target / 100
        return write_report([facts], path, target=goal)[0]

    def model(self, name: Any = None) -> TrainedModel:
        """The model of a prototype, such as `"cnn:w1"`, a class of yours, or None if there is only one."""
        from edgestill.api.model import TrainedModel

        prototype = self._named(name)
        final = self._final() if callable(self._final) else self._final
        network = copy.deepcopy(final.networks[prototype])
        load_state(network, final.states[prototype])
        last = next((r for r in self.recorded.rounds if r.round == final.round), None)
        accuracy = math.nan if last is None else last.prototypes[prototype].accuracy
        return TrainedModel(
            network,
            final.dataset,
            floats=_floats(self.config, quantized=network.spec.precision.quantized),
            round_number=final.round,
            accuracy=None if math.isnan(accuracy) else accuracy,
        )

    def _named(self, name: Any) -> str:
        """The whole name of a prototype: of a class, of an architecture alone, of the only one."""
        known = self.prototypes
        if name is None and len(known) == 1:
            return known[0]
        text = str(getattr(name, "__name__", name))
        fitting = [p for p in known if p == text] or [p for p in known if p.partition(":")[0] == text]
        if len(fitting) != 1:
            hint = did_you_mean(text, known) or f"; known: {' '.join(known)}"
            which = "give a prototype" if name is None else f"{len(fitting) or 'no'} prototypes are called {text!r}"
            raise ConfigError(f"model(): {which}{hint}")
        return fitting[0]


def _held(simulation: Simulation, round_number: int) -> Final:
    return Final(
        round=round_number,
        states={group.name: group.state for group in simulation.groups},
        networks={group.name: group.model for group in simulation.groups},
        dataset=simulation.dataset,
    )


def _floats(config: Mapping[str, Any], *, quantized: bool) -> str:
    """The wire dtype of a prototype's floats, as `SimulationConfig.floats_of`."""
    floats = str(config["floats"])
    return floats if floats != "auto" else "fp16" if quantized else "fp32"


def load_state(network: Prototype, state: Mapping[str, Tensor]) -> None:
    """Load a full-precision state into a network."""
    from quant.pack import load_packed, pack_state

    load_packed(network, pack_state(state, floats="fp32"))


def rows_of(result: RoundResult) -> list[dict[str, Any]]:
    """The rows of one round."""
    return [
        {
            "round": result.round,
            "prototype": name,
            **{key: _measured(value) for key, value in asdict(p).items()},
            "seconds": result.seconds,
        }
        for name, p in result.prototypes.items()
    ]


def _measured(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a DataFrame; `ConfigError` if there is no pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise ConfigError("a DataFrame needs pandas: pip install pandas; `rows` has the same without it") from None
    return pd.DataFrame([dict(row) for row in rows])


def load_run(folder: str | Path) -> Run:
    """A run from its `out` folder, written by `simulate` here or by `edgestill simulate --out`."""
    folder = Path(folder)
    facts = read_run(folder)
    folder = folder if folder.is_dir() else folder.parent
    rounds = [RoundResult.from_json(one) for one in facts["rounds"]]
    recorded = Recorded(config=facts["config"], fleet=facts["fleet"], rounds=rounds)
    return Run(recorded, lambda: _final_of(folder, facts["config"]), out=folder)


def _final_of(folder: Path, config: Mapping[str, Any]) -> Final:
    """The models of a run's last checkpoint; its dataset is loaded for them."""
    from fleet.data import load
    from fleet.simulation.checkpoint import Checkpoints
    from fleet.simulation.config import SimulationConfig
    from fleet.simulation.own_code.named import refuse_files_inside
    from fleet.simulation.specs import spec_of
    from models.build import build

    round_number, states = Checkpoints(folder).states()
    if not round_number:
        raise DataError(f"{folder}: has no checkpoint, so there are no models; runs in memory write one with out=")
    refuse_files_inside(config, folder)
    settings: SimulationConfig = SimulationConfig.from_json(config)
    dataset = load(settings.dataset)
    networks = {name: build(spec_of(name, settings, dataset)) for name in states}
    return Final(round=round_number, states=states, networks=networks, dataset=dataset)
