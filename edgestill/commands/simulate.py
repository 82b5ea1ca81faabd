"""`edgestill simulate`: a fleet on this machine."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgestill.output import out, print_json, print_table
from edgestill.progress import RoundDisplay
from wire.errors import ConfigError, DataError

if TYPE_CHECKING:
    from fleet.config import SimulationConfig
    from fleet.datasets import Dataset
    from fleet.runs import RoundResult, Run
    from fleet.simulate import Simulation
    from fleet.virtual.config import VirtualTime
    from transport.config import BrokerConfig

__all__ = ["simulate"]

FLEET, TRAIN, FUSION, TIME, OUTPUT = "Fleet", "Local training", "Fusion", "Virtual time", "Output"
BOARD = "rpi-4"  # of devices that are counted and not named by board


def simulate(
    ctx: typer.Context,
    dataset: Annotated[
        str,
        typer.Option(help="Name (see `edgestill data list`) or path of a dataset.", rich_help_panel=FLEET),
    ] = "digits",
    devices: Annotated[
        str,
        typer.Option(help="How many devices, or boards, such as rpi4:10,rpi-zero2w:5.", rich_help_panel=FLEET),
    ] = "12",
    prototypes: Annotated[
        str,
        typer.Option(
            help="architecture:precision, comma-separated, dealt to the devices in turn (`edgestill prototype list`).",
            rich_help_panel=FLEET,
        ),
    ] = "cnn:fp32,mlp:fp32,cnn:w1",
    partition: Annotated[
        str,
        typer.Option(
            help="Who gets which samples: dirichlet, iid, iid-skew, shards, fedgen, feddf, fedrad, fedrad-iid.",
            rich_help_panel=FLEET,
        ),
    ] = "dirichlet",
    alpha: Annotated[
        float, typer.Option(help="Of the Dirichlet draw: 0.1 very uneven, 100 even.", rich_help_panel=FLEET)
    ] = 1.0,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Of the partition, such as min_size=0; may be repeated (docs/data.md).", rich_help_panel=FLEET
        ),
    ] = None,
    latent: Annotated[
        int, typer.Option(help="Width D of the latent that all prototypes share.", rich_help_panel=FLEET)
    ] = 32,
    rounds: Annotated[int, typer.Option(help="How many rounds.", rich_help_panel=FLEET)] = 10,
    fraction: Annotated[
        float, typer.Option(help="Share of each prototype's devices that a round invites.", rich_help_panel=FLEET)
    ] = 1.0,
    recipe: Annotated[
        str, typer.Option(help="How updates are fused (`edgestill recipe list`).", rich_help_panel=FUSION)
    ] = "fedavg",
    fusion: Annotated[
        list[str] | None,
        typer.Option(
            help="Override a field of the recipe, such as steps=200; may be repeated (docs/fusion.md).",
            rich_help_panel=FUSION,
        ),
    ] = None,
    source: Annotated[
        str,
        typer.Option(
            help="The aggregator's samples without labels: auto (withheld), none, noise, a dataset's name, a path.",
            rich_help_panel=FUSION,
        ),
    ] = "auto",
    source_size: Annotated[
        int | None, typer.Option(help="How many of them [all; 10000 of noise].", rich_help_panel=FUSION)
    ] = None,
    source_classes: Annotated[
        str | None, typer.Option(help="Only those of these classes, such as 0,1,2.", rich_help_panel=FUSION)
    ] = None,
    validation_size: Annotated[
        int | None,
        typer.Option(
            help="Labelled samples withheld for early stopping and screens [a tenth, where the recipe looks at them].",
            rich_help_panel=FUSION,
        ),
    ] = None,
    update: Annotated[
        str,
        typer.Option(help="What devices send: state, or predictor, and keep their extractors.", rich_help_panel=FUSION),
    ] = "state",
    count_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Noise on the devices' label counts: epsilon of differential privacy.", rich_help_panel=FUSION
        ),
    ] = None,
    count_bins: Annotated[
        int | None, typer.Option(help="Label counts rounded to multiples of this.", rich_help_panel=FUSION)
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option(
            help="Devices that do harm, such as faulty:6,malicious:4 (docs/simulate.md).", rich_help_panel=FUSION
        ),
    ] = None,
    compute: Annotated[
        str, typer.Option(help="What fusion runs on: auto, cpu, cuda, cuda:1, mps.", rich_help_panel=FUSION)
    ] = "auto",
    processes: Annotated[
        int, typer.Option(help="Prototypes that are distilled at the same time.", rich_help_panel=FUSION)
    ] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.", rich_help_panel=FLEET)] = 0,
    local_epochs: Annotated[
        int | None, typer.Option(help="Passes over a device's samples per round [2].", rich_help_panel=TRAIN)
    ] = None,
    local_steps: Annotated[
        int | None, typer.Option(help="Mini-batches per round, instead of epochs.", rich_help_panel=TRAIN)
    ] = None,
    lr: Annotated[float, typer.Option(help="Learning rate.", rich_help_panel=TRAIN)] = 0.03,
    momentum: Annotated[float, typer.Option(help="Of SGD, reset each round.", rich_help_panel=TRAIN)] = 0.9,
    batch_size: Annotated[int, typer.Option(help="Mini-batch size.", rich_help_panel=TRAIN)] = 8,
    prox: Annotated[
        float | None, typer.Option(help="mu of FedProx; 0 is off [what the recipe says].", rich_help_panel=TRAIN)
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where devices train: inline, processes, ray. The models are the same [processes, on Linux].",
            rich_help_panel=FLEET,
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Processes that train devices; 0: one per core.", rich_help_panel=FLEET)
    ] = 0,
    address: Annotated[
        str,
        typer.Option(
            help="With --engine ray: of a cluster; default: Ray is started here, open to the network.",
            rich_help_panel=FLEET,
        ),
    ] = "",
    score_every: Annotated[
        int, typer.Option(help="Score models every so many rounds, and after the last.", rich_help_panel=FLEET)
    ] = 1,
    transport: Annotated[
        str,
        typer.Option(
            help="memory: on this machine alone. mqtt: broker, aggregator and agents as real processes.",
            rich_help_panel=FLEET,
        ),
    ] = "memory",
    broker: Annotated[
        str | None,
        typer.Option(help="With mqtt: HOST:PORT of a broker; default: the embedded one.", rich_help_panel=FLEET),
    ] = None,
    virtual_clock: Annotated[
        bool,
        typer.Option(
            "--virtual-clock",
            help="Tell how long the boards of --devices would take; rounds end as theirs would.",
            rich_help_panel=TIME,
        ),
    ] = False,
    deadline: Annotated[
        float, typer.Option(help="Virtual seconds until a round is closed.", rich_help_panel=TIME)
    ] = 3600.0,
    quorum: Annotated[
        float, typer.Option(help="Share of the invited that is enough at the deadline.", rich_help_panel=TIME)
    ] = 0.5,
    availability: Annotated[
        float, typer.Option(help="Share of the rounds that a device is there for.", rich_help_panel=TIME)
    ] = 1.0,
    dropout: Annotated[
        float, typer.Option(help="Share of the rounds that it begins and never ends.", rich_help_panel=TIME)
    ] = 0.0,
    trace: Annotated[
        Path | None, typer.Option(help="CSV file that says when devices are there.", rich_help_panel=TIME)
    ] = None,
    hardware: Annotated[
        Path | None, typer.Option(help="TOML file with speeds and watts of boards of yours.", rich_help_panel=TIME)
    ] = None,
    buffer: Annotated[
        int,
        typer.Option(help="No rounds: fuse when so many updates are in (FedBuff); 0 is off.", rich_help_panel=TIME),
    ] = 0,
    concurrency: Annotated[
        int,
        typer.Option(
            help="With --buffer: devices that train at any time; 0: as a round invites.", rich_help_panel=TIME
        ),
    ] = 0,
    floats: Annotated[
        str,
        typer.Option(
            help="What is not quantized travels as fp16 or fp32; auto: fp32 for fp32 prototypes, fp16 for the others.",
            rich_help_panel=OUTPUT,
        ),
    ] = "auto",
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for run.json and curves.png; made if missing.", rich_help_panel=OUTPUT),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with the run in this folder, by its own flags; --rounds may be more.", rich_help_panel=OUTPUT
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another run in --out.", rich_help_panel=OUTPUT)
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the settings, print them as JSON, run nothing.", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print run.json to stdout.", rich_help_panel=OUTPUT)] = False,
) -> Any:
    """Watch a fleet of different models learn, on this machine.

    Devices of several prototypes (architecture + precision, such as cnn:w1 with 1-bit weights) train on their own
    share of a dataset; each round, the updates are fused by a recipe: averaged per prototype, and with a recipe such
    as feddf or fedrad distilled across prototypes. Updates pass through the real wire format, so the bytes are true.

    Example:  edgestill simulate --dataset digits --devices 12 --prototypes cnn:fp32,mlp:fp32,cnn:w1 --out run
    """
    from aggregator.overrides import parse_overrides
    from aggregator.recipes import find_recipe
    from edge_agent.hyper import LocalTraining
    from fleet.config import DEFAULT_ENGINE, SimulationConfig
    from fleet.partition import parse_options

    if local_epochs is None and local_steps is None:
        local_epochs = 2
    if local_epochs is not None and local_steps is not None:
        raise ConfigError("give either --local-epochs or --local-steps, not both")
    boards = _boards(devices)
    asked = {
        "deadline_s": deadline,
        "quorum": quorum,
        "availability": availability,
        "dropout": dropout,
        "trace": None if trace is None else str(trace),
        "hardware": None if hardware is None else str(hardware),
        "buffer": buffer,
        "concurrency": concurrency,
    }
    overrides = parse_overrides(fusion or [])
    if prox is None:
        prox = find_recipe(recipe, overrides).local.get("prox", 0.0)
    config = SimulationConfig(
        dataset=dataset,
        devices=len(boards),
        prototypes=tuple(name.strip() for name in prototypes.split(",") if name.strip()),
        training=LocalTraining(
            lr=lr, batch_size=batch_size, epochs=local_epochs, steps=local_steps, momentum=momentum, prox=prox
        ),
        partition=partition,
        alpha=alpha,
        options=parse_options(option or []),
        rounds=rounds,
        fraction=fraction,
        recipe=recipe,
        fusion=overrides,
        source=source,
        source_size=source_size,
        source_classes=_numbers(source_classes or ""),
        validation_size=validation_size,
        update=update,
        count_epsilon=count_epsilon,
        count_bins=count_bins,
        attack=attack or "",
        compute=compute,
        processes=processes,
        latent=latent,
        floats=floats,
        seed=seed,
        transport=transport,
        engine=engine or DEFAULT_ENGINE,
        workers=workers,
        address=address,
        score_every=score_every,
        virtual=_virtual(boards, asked, wanted=virtual_clock),
    )
    if broker is not None and transport != "mqtt":
        raise ConfigError("--broker goes with --transport mqtt")
    if dry_run:
        if not quiet:
            print_json(config.to_json())
        return config
    if resume is not None:
        config, out_dir = _resumed(ctx, resume, config), resume
    run = _run(config, out_dir, broker, force=force, quiet=quiet or as_json, resume=resume is not None)
    if as_json:
        print_json(run.to_json())
    else:
        _print_result(run)
        if out_dir is not None:
            out.print(f"\nwrote {out_dir / 'run.json'} and {out_dir / 'curves.png'}", markup=False, soft_wrap=True)
    return None


def _boards(text: str) -> tuple[str, ...]:
    """The board of every device."""
    from fleet.virtual.hardware import parse_boards

    if text.strip().lstrip("-").isdecimal():
        return (BOARD,) * max(int(text), 0)
    return parse_boards(text)


def _virtual(boards: tuple[str, ...], asked: dict[str, Any], *, wanted: bool) -> VirtualTime | None:
    """Virtual time as it was asked for; its flags mean nothing without it."""
    from fleet.virtual.config import VirtualTime

    if wanted:
        return VirtualTime(boards=boards, **asked)
    usual = VirtualTime(boards=())
    for name, value in asked.items():
        if value != getattr(usual, name):
            raise ConfigError(f"--{name.removesuffix('_s')} goes with --virtual-clock")
    return None


def _numbers(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        raise ConfigError(f"--source-classes {text!r}: give class numbers from 0, such as 0,1,2")
    return tuple(map(int, words))


#: Flags that go with --resume: how long, where, and what is shown.
WITH_RESUME = ("resume", "rounds", "engine", "workers", "address", "quiet", "as_json")


def _resumed(ctx: typer.Context, folder: Path, asked: SimulationConfig) -> SimulationConfig:
    """The configuration of the run in `folder`, with those flags that may differ."""
    from dataclasses import replace

    from fleet.config import SimulationConfig
    from fleet.runs import read_run

    given = [p for p in ctx.command.params if p.name and str(ctx.get_parameter_source(p.name)).endswith("COMMANDLINE")]
    for parameter in given:
        if parameter.name not in WITH_RESUME:
            flag = parameter.opts[0]
            raise ConfigError(f"--resume goes on with the flags of {folder / 'run.json'}; leave out {flag}")
    config = SimulationConfig.from_json(read_run(folder)["config"])
    names = {p.name for p in given}
    rounds = asked.rounds if "rounds" in names else config.rounds
    workers = asked.workers if "workers" in names else config.workers
    if config.transport != "memory" or config.virtual is not None:
        raise ConfigError(f"{folder}: a run over MQTT or in virtual time is not resumed; start it anew")
    engine, address = (asked.engine, asked.address) if "engine" in names else (config.engine, config.address)
    return replace(config, rounds=rounds, workers=workers, engine=engine, address=address)


def _run(
    config: SimulationConfig,
    out_dir: Path | None,
    broker: str | None,
    *,
    force: bool,
    quiet: bool,
    resume: bool = False,
) -> Run:
    """Run all rounds; Ctrl-C leaves the files of the rounds that are done."""
    from fleet.runs import claim_folder, write_run

    if out_dir is not None and not resume:
        claim_folder(out_dir, config.to_json(), force=force)
    simulation, dataset = _build(config)
    run, keep = _begin(simulation, out_dir, resume=resume)
    done = len(run.rounds)
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
    finally:
        if out_dir is not None and run.rounds:
            _draw(run, out_dir)
    return run


def _begin(simulation: Simulation, out_dir: Path | None, *, resume: bool) -> tuple[Run, Callable[[int], None]]:
    """The run so far, and what is to be called after each of its rounds."""
    from fleet.checkpoint import Checkpoints
    from fleet.runs import RoundResult, read_run

    run, config = simulation.new_run(), simulation.config
    if out_dir is None or config.transport != "memory" or config.virtual is not None:
        return run, lambda number: None
    checkpoints = Checkpoints(out_dir)
    if resume:
        told = read_run(out_dir)
        if told["fleet"] != run.fleet:
            raise DataError(f"{out_dir}: the dataset is not the one that the run began with; start it anew")
        done = checkpoints.restore(simulation)
        run.rounds = [RoundResult.from_json(facts) for facts in told["rounds"][:done]]
        if len(run.rounds) != done:
            raise DataError(f"{out_dir}: a checkpoint of round {done}, but run.json has {len(run.rounds)} rounds")
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

    from fleet.datasets import load

    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load, config.dataset)
        import torch

        from fleet.simulate import Simulation
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
    from fleet.over_mqtt import MqttSimulation
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
    from fleet.curves import draw_curves

    c = run.config
    split = f"{c['partition']} alpha {c['alpha']}"
    title = f"{c['dataset']}, {c['devices']} devices, {split}: {c['recipe']}, seed {c['seed']}"
    scored = [r for r in run.rounds if all(math.isfinite(p.accuracy) for p in r.prototypes.values())]
    draw_curves(scored or run.rounds, out_dir / "curves.png", title=title)


def _print_result(run: Run) -> None:
    """One line per prototype: how good, how small."""
    last = run.rounds[-1]
    rows = []
    for name, result in last.prototypes.items():
        best = max(a for r in run.rounds if math.isfinite(a := r.prototypes[name].accuracy))
        on_device = "" if result.accuracy_quantized is None else f"{100 * result.accuracy_quantized:.1f} %"
        size = f"{result.bytes_up / result.devices / 1000:.1f} kB" if result.devices else ""
        own = "" if result.device_accuracy is None else f"{100 * result.device_accuracy:.1f} %"
        before = "" if result.average_accuracy is None else f"{100 * result.average_accuracy:.1f} %"
        full = f"{100 * result.accuracy:.1f} %"
        rows.append([name, result.devices, full, on_device, before, own, f"{100 * best:.1f} %", size])
    columns = [
        "prototype",
        "devices",
        "accuracy",
        "at its precision",
        "its average",
        "devices' own",
        "best",
        "one update",
    ]
    for n in (5, 4):  # nobody keeps a model of its own, nothing was distilled
        if not any(row[n] for row in rows):
            columns, rows = columns[:n] + columns[n + 1 :], [row[:n] + row[n + 1 :] for row in rows]
    print_table(f"after round {last.round}, on the test set", columns, rows)
    together = next((p.ensemble_accuracy for p in last.prototypes.values() if p.ensemble_accuracy is not None), None)
    if together is not None:
        out.print(f"\nall teachers together: {100 * together:.1f} %")
    attackers = [d["device"] for d in run.fleet if "attack" in d]
    if attackers:
        share = sum(last.devices.get(name, {}).get("weight", 0.0) for name in attackers) / len(last.prototypes)
        out.print(f"\n{len(attackers)} devices do harm; their share of the averages: {100 * share:.1f} %")
    up, down = (sum(getattr(r, k) for r in run.rounds) / 1e6 for k in ("bytes_up", "bytes_down"))
    seconds = sum(r.seconds for r in run.rounds)
    out.print(f"\n{up:.2f} MB up, {down:.2f} MB down, {len(run.rounds)} rounds in {seconds:.1f} s")
