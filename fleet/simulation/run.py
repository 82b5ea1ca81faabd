"""A simulated fleet from start to end: its data, its rounds, its files.

    run = run_simulation(config, Path("run"), observer=Observer())

    out_dir/run.json        rewritten after every round
    out_dir/checkpoint/     the fleet's state after the last round (checkpoint.py)
    out_dir/curves.png      drawn at the end, also if the run was interrupted
    out_dir/fleet/          over MQTT: the state folders of all processes
    out_dir/trackers.json   how far the experiment trackers have come, if there are any

Imports no torch before a run begins.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fleet.results.run_file import claim_folder, write_run
from fleet.simulation.hooks import NO_HOOKS, Hooks
from fleet.simulation.observer import Observer
from fleet.simulation.resume import is_resumable, restore
from fleet.simulation.settings.layers import about
from fleet.simulation.tracked import find_trackers, tracked
from fleet.simulation.warnings.few_steps import few_steps_text
from fleet.simulation.warnings.lost_devices import LostDevices, LostRunError

if TYPE_CHECKING:
    from fleet.data import Dataset
    from fleet.results.run_file import RoundResult, Run
    from fleet.simulation.config import SimulationConfig
    from fleet.simulation.simulation import Simulation
    from transport.config import BrokerConfig

__all__ = ["Interrupted", "LostRunError", "check_run", "run_simulation"]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after at least one round."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run


def run_simulation(
    config: SimulationConfig,
    out_dir: Path | None = None,
    *,
    broker: BrokerConfig | None = None,
    force: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    hooks: Hooks = NO_HOOKS,
) -> Run:
    """Run all rounds; with `resume`, the remaining rounds of the run in `out_dir`.

    On Ctrl-C the files of the completed rounds stay, and `Interrupted` is raised if there are any. A round that loses
    more than half of its devices does the same with `LostRunError`. `force` replaces another run in `out_dir`; `broker`
    is the broker of a fleet over MQTT, by default an embedded one. `hooks` change the fleet (`hooks.py`).
    """
    observer = observer or Observer()
    trackers = find_trackers(config.track)
    if out_dir is not None and not resume:
        claim_folder(out_dir, config.to_json(), force=force)
    simulation, dataset = _build(config, hooks)
    run, keep = _begin(simulation, out_dir, resume=resume)
    observer.built(simulation)
    try:
        with (
            simulation,
            observer.watch(run, per_round=simulation.per_round, at_once=_at_once(simulation)),
            tracked(trackers, run, out_dir, resume=resume, warn=observer.warn) as track,
        ):
            if config.transport == "mqtt":
                rounds = _rounds_over_mqtt(simulation, dataset, out_dir, broker, observer.device_done)
            else:
                rounds = _rounds_in_memory(simulation, len(run.rounds), observer.device_done)
            _follow(rounds, run, keep, observer, track)
    except KeyboardInterrupt:
        if run.rounds:
            raise Interrupted(run) from None
        raise
    finally:
        if out_dir is not None and run.rounds:
            from fleet.results.curves import draw_curves

            draw_curves(run, out_dir / "curves.png")
    return run


def check_run(config: SimulationConfig) -> None:
    """Build the fleet as a run does, with its data, samples and compute device, and train nothing.

    Raises what the run would raise before its first round; it starts no process, and connects to no cluster.
    """
    if config.engine == "ray":
        from aggregator.fusion.ray_tasks import find_ray

        with about("engine"):
            find_ray()
    find_trackers(config.track)
    simulation, _ = _build(replace(config, engine="inline", address=""), NO_HOOKS)
    simulation.close()


def _build(config: SimulationConfig, hooks: Hooks) -> tuple[Simulation, Dataset]:
    """Build the fleet; the data is loaded while torch is imported, which takes about as long."""
    from concurrent.futures import ThreadPoolExecutor

    from fleet.data import load

    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load, config.dataset)
        from fleet.engines.threads import one_thread
        from fleet.simulation.simulation import Simulation
        from fleet.virtual.simulation import VirtualSimulation

        with about("dataset"):
            dataset = loading.result()
    with one_thread():
        make = Simulation if config.virtual is None else VirtualSimulation
        return make(config, dataset, hooks=hooks), dataset


def _begin(simulation: Simulation, out_dir: Path | None, *, resume: bool) -> tuple[Run, Callable[[int], None]]:
    """The run so far, and a function that writes the files of a round."""
    from fleet.simulation.checkpoint import Checkpoints

    run = simulation.new_run()
    if out_dir is None:
        return run, lambda round_number: None
    checkpoints = Checkpoints(out_dir) if is_resumable(simulation.config) else None
    if checkpoints is not None and resume:
        run.rounds = restore(simulation, run, out_dir, checkpoints)
    elif checkpoints is not None:
        checkpoints.clear()

    def keep(round_number: int) -> None:
        write_run(run, out_dir)
        if checkpoints is not None:
            checkpoints.write(simulation, round_number)

    return run, keep


def _follow(
    rounds: Generator[RoundResult, None, None],
    run: Run,
    keep: Callable[[int], None],
    observer: Observer,
    track: Callable[[], None],
) -> None:
    """Add every round to the run and its files; raise `LostRunError` if most devices were lost."""
    lost = LostDevices(run.config["training"], observer.warn)
    few_steps = "" if run.rounds else few_steps_text(run.config["training"], run.fleet)
    if few_steps:
        observer.warn(few_steps)
    with closing(rounds):  # Ctrl-C terminates the processes too, at any moment
        for result in rounds:
            if few_steps and not run.rounds:
                result.warnings.append(few_steps)
            run.rounds.append(result)
            observer.round_done(result)
            try:
                lost.check(result, run)
            finally:
                keep(result.round)
                track()
            if not observer.goes_on():
                return


def _at_once(simulation: Simulation) -> int:
    """How many devices train in parallel."""
    config = simulation.config
    if config.transport == "mqtt":
        return simulation.per_round
    return 1 if config.engine == "inline" else config.workers or os.cpu_count() or 1


def _rounds_in_memory(
    simulation: Simulation, done: int, on_device: Callable[[str], None]
) -> Generator[RoundResult, None, None]:
    for round_number in range(done + 1, simulation.config.rounds + 1):
        yield simulation.run_round(round_number, on_device=on_device)


def _rounds_over_mqtt(
    simulation: Simulation,
    dataset: Dataset,
    out_dir: Path | None,
    broker: BrokerConfig | None,
    on_device: Callable[[str], None],
) -> Generator[RoundResult, None, None]:
    """Rounds of a fleet of processes, whose state is in `out_dir/fleet` or in a temporary folder.

    The groups of `simulation`, which trains nothing here, get the models that the fleet's aggregator publishes.
    """
    from fleet.mqtt.fleet import MqttSimulation
    from transport.config import BrokerConfig
    from transport.embedded import EmbeddedBroker

    with ExitStack() as stack:
        if out_dir is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="edgestill-")))
        else:
            folder = out_dir / "fleet"
            shutil.rmtree(folder, ignore_errors=True)  # left by an earlier run with --force: the folder is claimed
        if broker is None:
            broker = BrokerConfig(port=stack.enter_context(EmbeddedBroker()).port)
        fleet = stack.enter_context(MqttSimulation(simulation.config, dataset, folder, broker))
        for result in fleet.rounds(on_device=on_device):
            fleet.read_models(simulation.groups, result.round)
            yield result
