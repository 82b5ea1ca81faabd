"""A simulated fleet from start to end: its data, its rounds, its progress, its files."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from core.errors import ConfigError, DataError
from edgestill.cli.lost_devices import LostDevices
from edgestill.cli.progress import RoundDisplay

if TYPE_CHECKING:
    from fleet.data import Dataset
    from fleet.results.run_file import RoundResult, Run
    from fleet.simulation.config import SimulationConfig
    from fleet.simulation.simulation import Simulation
    from transport.config import BrokerConfig

__all__ = ["Interrupted", "run_fleet"]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after at least one round."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run


def run_fleet(
    config: SimulationConfig,
    out_dir: Path | None,
    broker: str | None,
    *,
    force: bool,
    quiet: bool,
    resume: bool = False,
) -> Run:
    """Run all rounds; Ctrl-C leaves the files of the rounds that are done, and is `Interrupted` if there are any.

    So does a round that lost more than half of its devices, which is `LostRunError`.
    """
    from fleet.results.run_file import claim_folder, write_run

    if out_dir is not None and not resume:
        claim_folder(out_dir, config.to_json(), force=force)
    simulation, dataset = _build(config)
    run, keep = _begin(simulation, out_dir, resume=resume)
    done, lost = len(run.rounds), LostDevices(run.config["training"])
    try:
        devices = simulation.per_round
        shown = RoundDisplay(config.rounds, devices, quiet=quiet, at_once=_at_once(config, devices), fleet=run.fleet)
        with simulation, shown as show:
            if config.transport == "mqtt":
                rounds = _rounds_over_mqtt(config, dataset, out_dir, broker, show.device_done)
            else:
                rounds = (
                    simulation.run_round(n, on_device=show.device_done) for n in range(done + 1, config.rounds + 1)
                )
            with closing(rounds):  # Ctrl-C ends the processes too, wherever it falls
                for result in rounds:
                    run.rounds.append(result)
                    show.round_done(result)
                    if out_dir is not None:
                        write_run(run, out_dir)
                        keep(result.round)
                    lost.look(result, run)
    except KeyboardInterrupt:
        if run.rounds:
            raise Interrupted(run) from None
        raise
    finally:
        if out_dir is not None and run.rounds:
            _draw(run, out_dir)
    return run


def _begin(simulation: Simulation, out_dir: Path | None, *, resume: bool) -> tuple[Run, Callable[[int], None]]:
    """The run so far, and what is to be called after each of its rounds."""
    from fleet.results.run_file import RoundResult, read_run
    from fleet.simulation.checkpoint import Checkpoints

    run, config = simulation.new_run(), simulation.config
    if out_dir is None or config.transport != "memory" or config.virtual is not None:
        return run, lambda number: None
    checkpoints = Checkpoints(out_dir)
    if resume:
        told = read_run(out_dir)
        if told["fleet"] != run.fleet:
            raise DataError(f"{out_dir}: the dataset is not the one that the run began with; start it anew")
        done = checkpoints.restore(simulation)
        if told["rounds"] and not done:
            raise DataError(
                f"{out_dir}: run.json has {len(told['rounds'])} rounds, but there is no checkpoint to go on from; "
                "start the run anew"
            )
        run.rounds = [RoundResult.from_json(facts) for facts in told["rounds"][:done]]
        if len(run.rounds) != done:
            raise DataError(f"{out_dir}: a checkpoint of round {done}, but run.json has {len(run.rounds)} rounds")
        if done > config.rounds:
            raise ConfigError(f"--rounds {config.rounds}: {out_dir} has {done} rounds already; give more")
    else:
        checkpoints.clear()
    return run, lambda number: checkpoints.write(simulation, number)


def _at_once(config: SimulationConfig, devices: int) -> int:
    """How many devices train at the same time."""
    if config.transport == "mqtt":
        return devices
    return 1 if config.engine == "inline" else config.workers or os.cpu_count() or 1


def _build(config: SimulationConfig) -> tuple[Simulation, Dataset]:
    """The fleet; its data is read while torch is imported, which takes as long."""
    from concurrent.futures import ThreadPoolExecutor

    from fleet.data import load

    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load, config.dataset)
        import torch

        from fleet.simulation.simulation import Simulation
        from fleet.virtual.simulation import VirtualSimulation

        torch.set_num_threads(1)  # one thread a process: two collapse on a busy machine
        dataset = loading.result()
    return (Simulation if config.virtual is None else VirtualSimulation)(config, dataset), dataset


def _rounds_over_mqtt(
    config: SimulationConfig,
    dataset: Dataset,
    out_dir: Path | None,
    broker: str | None,
    on_device: Callable[[str], None],
) -> Generator[RoundResult, None, None]:
    """Rounds of a fleet of processes, which live in `out_dir/fleet` or in a folder that is removed afterwards."""
    from fleet.mqtt.fleet import MqttSimulation
    from transport.config import BrokerConfig
    from transport.embedded import EmbeddedBroker

    with ExitStack() as stack:
        if out_dir is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="edgestill-")))
        else:
            folder = out_dir / "fleet"
            shutil.rmtree(folder, ignore_errors=True)  # of the same run: the folder was claimed
        if broker is None:
            where = BrokerConfig(port=stack.enter_context(EmbeddedBroker()).port)
        else:
            where = _parse_broker(broker)
        fleet = stack.enter_context(MqttSimulation(config, dataset, folder, where))
        yield from fleet.rounds(on_device=on_device)


def _parse_broker(text: str) -> BrokerConfig:
    from transport.config import BrokerConfig

    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"--broker {text!r}: write it as HOST:PORT, such as 127.0.0.1:1883")
    return BrokerConfig(host=host, port=int(port))


def _draw(run: Run, out_dir: Path) -> None:
    from fleet.results.curves import draw_curves

    c = run.config
    split = f"{c['partition']} alpha {c['alpha']}"
    title = f"{c['dataset']}, {c['devices']} devices, {split}: {c['recipe']}, seed {c['seed']}"
    scored = [r for r in run.rounds if all(math.isfinite(p.accuracy) for p in r.prototypes.values())]
    draw_curves(scored or run.rounds, out_dir / "curves.png", title=title)
