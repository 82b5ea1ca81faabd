"""A sweep on disk: the state of its runs, and the processes that execute the missing ones.

DIR/runs/NAME/      output of `edgestill simulate --out`: run.json, curves.png
DIR/logs/NAME.log   log of the run
DIR/sweep.json, sweep.csv, runs.csv
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError, DataError, EdgestillError
from core.processes.python_child import module_arguments
from fleet.jobs import Job, Progress, run_jobs
from fleet.results.run_file import SCHEMA, essence, read_run
from fleet.simulation.config import SimulationConfig
from fleet.simulation.settings.configure import configure
from fleet.simulation.settings.layers import overlay
from fleet.simulation.settings.table import from_environment
from fleet.sweep.grid import Point, Sweep, names
from fleet.sweep.settings import flags_of

__all__ = ["Planned", "make_folders", "plan", "run_missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One run of a sweep."""

    name: str
    point: Point
    config: SimulationConfig
    flags: tuple[str, ...]
    folder: Path
    log: Path

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def state(self) -> str:
        """`done`, `unfinished`, `missing`, or `other`: the folder holds a run with another configuration."""
        if not (self.folder / "run.json").exists():
            return "missing"
        try:
            stored = read_run(self.folder)
        except DataError:
            return "unfinished"
        if essence(stored.get("config") or {}) != essence(self.config.to_json()):
            return "other"
        rounds = stored.get("rounds")
        return "done" if isinstance(rounds, list) and len(rounds) == self.config.rounds else "unfinished"

    def _can_go_on(self) -> bool:
        """Whether there is a checkpoint of this schema: older versions distilled differently."""
        try:
            ours = read_run(self.folder)["schema"] == SCHEMA
        except DataError:
            ours = True  # `simulate --resume` reports the error
        return ours and any((self.folder / "checkpoint").glob("*.safetensors"))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command line of the process that starts or resumes the run."""
        if self.state() == "unfinished" and self._can_go_on():
            return module_arguments("edgestill", "simulate", f"--resume={self.folder}")
        # --force: `state` has shown that the files may be replaced
        return module_arguments("edgestill", "simulate", *self.flags, f"--out={self.folder}", "--force")


def plan(sweep: Sweep, out: Path) -> list[Planned]:
    """Every run of the sweep with its configuration; `ConfigError` names the first invalid one.

    The processes of the runs get the sweep's settings as flags; environment variables apply to the other settings.
    """
    planned, variables = [], from_environment()
    for name, point in names(sweep.points).items():
        own = sweep.layer(point)
        settings = overlay(variables, own)
        with settings.located():
            try:
                config = configure(settings.values)
            except ConfigError as error:
                error.args = (f"{error} (run {name})",)
                raise
        planned.append(
            Planned(
                name=name,
                point=point,
                config=config,
                flags=tuple(flags_of(dict(own.values))),
                folder=out / "runs" / name,
                log=out / "logs" / f"{name}.log",
            )
        )
    return planned


def make_folders(out: Path) -> None:
    """Create the folders of a sweep."""
    try:
        for name in ("runs", "logs"):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror}; choose another folder") from error


def run_missing(
    runs: Sequence[Planned],
    *,
    jobs: int,
    force: bool = False,
    show: Callable[[Progress], None],
    here: Callable[[Planned], None] | None = None,
) -> dict[str, str]:
    """Execute the runs that are not complete, `jobs` at a time; returns the errors of failed runs by name.

    With `here`, which runs one, they are executed by this process, one after another.
    """
    other = [run for run in runs if run.state() == "other"]
    if other and not force:
        raise ConfigError(
            f"{other[0].folder}: holds a run with other settings, one of {len(other)}; give another --out, or --force "
            "to replace them"
        )
    wanted = [run for run in runs if run.state() != "done"]
    if here is not None:
        return _one_by_one(wanted, here, show)
    made = [Job(key=run, arguments=run.arguments, log=run.log) for run in wanted]
    return {str(run): reason for run, reason in run_jobs(made, at_once=jobs, show=show).items()}


def _one_by_one(
    runs: Sequence[Planned], here: Callable[[Planned], None], show: Callable[[Progress], None]
) -> dict[str, str]:
    failed: dict[str, str] = {}
    for done, run in enumerate(runs):
        show(Progress(total=len(runs), done=done, running={run.name: ""}))
        begun = time.monotonic()
        try:
            here(run)
        except EdgestillError as error:
            failed[run.name] = str(error)
            run.log.write_text(f"{error}\n")
        ended = (run.name, time.monotonic() - begun, run.name in failed)
        show(Progress(total=len(runs), done=done + 1, running={}, ended=ended))
    return failed
