"""`edgestill simulate`: a fleet on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError
from core.limits import DEVICES
from edge_agent.training.params import DEFAULTS, local_training
from edgestill.cli.output import out, print_json

if TYPE_CHECKING:
    from fleet.results.run_file import Run
    from fleet.simulation.config import SimulationConfig
    from fleet.virtual.config import VirtualTime
    from transport.config import BrokerConfig

__all__ = ["simulate"]

FLEET, TRAIN, FUSION, TIME, OUTPUT = "Fleet", "Local training", "Fusion", "Virtual time", "Output"
PASSES = f"{DEFAULTS.epochs}, of at least {DEFAULTS.least_steps} and at most {DEFAULTS.most_steps} mini-batches"
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
            help="The aggregator's unlabeled samples: auto (withheld), none, noise, a dataset's name, a path.",
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
            help="Adversarial devices, such as faulty:6,malicious:4 (docs/simulate.md).", rich_help_panel=FUSION
        ),
    ] = None,
    compute: Annotated[
        str, typer.Option(help="What fusion runs on: auto, cpu, cuda, cuda:1, mps.", rich_help_panel=FUSION)
    ] = "auto",
    processes: Annotated[
        int,
        typer.Option(help="Prototypes that distill at once; at least one per worker.", rich_help_panel=FUSION),
    ] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.", rich_help_panel=FLEET)] = 0,
    local_epochs: Annotated[
        int | None,
        typer.Option(
            help=f"Passes over a device's samples per round [{PASSES}].",
            rich_help_panel=TRAIN,
        ),
    ] = None,
    local_steps: Annotated[
        int | None, typer.Option(help="Mini-batches per round, instead of epochs.", rich_help_panel=TRAIN)
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(help="Learning rate [auto: by batch size and momentum].", rich_help_panel=TRAIN),
    ] = None,
    momentum: Annotated[
        float, typer.Option(help="Of SGD, reset each round.", rich_help_panel=TRAIN)
    ] = DEFAULTS.momentum,
    batch_size: Annotated[int, typer.Option(help="Mini-batch size.", rich_help_panel=TRAIN)] = DEFAULTS.batch_size,
    clip: Annotated[
        float, typer.Option(help="Greatest norm of a mini-batch's gradient; 0 is off.", rich_help_panel=TRAIN)
    ] = DEFAULTS.clip,
    prox: Annotated[
        float | None, typer.Option(help="mu of FedProx; 0 is off [what the recipe says].", rich_help_panel=TRAIN)
    ] = None,
    fast: Annotated[
        str,
        typer.Option(
            help="Hand-written fast paths of local training: auto, or off to check them.", rich_help_panel=TRAIN
        ),
    ] = DEFAULTS.fast,
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
    batch_devices: Annotated[
        str,
        typer.Option(
            help="Devices that a worker trains as one computation: auto (perceptrons), off, a number.",
            rich_help_panel=FLEET,
        ),
    ] = "auto",
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
    score_devices: Annotated[
        str,
        typer.Option(
            help="Score every device's own model, on its own slice and the whole test set: last (round), every, never.",
            rich_help_panel=FLEET,
        ),
    ] = "last",
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
    from aggregator.recipes.catalogue import find_recipe
    from aggregator.recipes.overrides import parse_overrides
    from fleet.partition import parse_options
    from fleet.simulation.config import DEFAULT_ENGINE, SimulationConfig

    if local_epochs is not None and local_steps is not None:
        raise ConfigError("give either --local-epochs or --local-steps, not both")
    boards = _boards(devices, hardware)
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
        training=local_training(
            lr=lr,
            batch_size=batch_size,
            epochs=local_epochs,
            steps=local_steps,
            momentum=momentum,
            prox=prox,
            clip=clip,
            fast=fast,
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
        batch_devices=_batch(batch_devices),
        address=address,
        score_every=score_every,
        score_devices=score_devices,
        virtual=_virtual(boards, asked, wanted=virtual_clock),
    )
    if broker is not None and transport != "mqtt":
        raise ConfigError("--broker goes with --transport mqtt")
    if resume is not None:
        resume = resume.parent if resume.is_file() else resume  # its run.json was named
        config, out_dir = _resumed(ctx, resume, config), resume
    if dry_run:
        if not quiet:
            print_json(config.to_json())
        return config
    where = None if broker is None else _parse_broker(broker)
    _run_and_tell(config, out_dir, where, force=force, resume=resume is not None, quiet=quiet, as_json=as_json)
    return None


def _run_and_tell(
    config: SimulationConfig,
    out_dir: Path | None,
    broker: BrokerConfig | None,
    *,
    force: bool,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run it; what the rounds have come to is printed also where it was cut."""
    from edgestill.cli.progress import RunDisplay
    from fleet.simulation.resume import is_resumable
    from fleet.simulation.run import Interrupted, LostRunError, run_simulation

    observer = RunDisplay(quiet=quiet or as_json)
    try:
        run = run_simulation(config, out_dir, broker=broker, force=force, resume=resume, observer=observer)
    except Interrupted as cut:
        _tell(cut.run, out_dir, as_json=as_json)
        if out_dir is not None and is_resumable(config) and not as_json:
            out.print(f"to go on: edgestill simulate --resume {out_dir}", markup=False, soft_wrap=True)
        raise
    except LostRunError as ended:
        _tell(ended.run, out_dir, as_json=as_json)
        raise
    _tell(run, out_dir, as_json=as_json)


def _parse_broker(text: str) -> BrokerConfig:
    from transport.config import BrokerConfig

    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"--broker {text!r}: write it as HOST:PORT, such as 127.0.0.1:1883")
    return BrokerConfig(host=host, port=int(port))


def _tell(run: Run, out_dir: Path | None, *, as_json: bool) -> None:
    """What the rounds have come to, and where it is."""
    from edgestill.cli.run_summary import print_summary

    if as_json:
        print_json(run.to_json())
        return
    print_summary(run)
    if out_dir is not None:
        files = f"{out_dir / 'run.json'} and {out_dir / 'curves.png'}"
        out.print(f"\nwrote {files}; for a page: edgestill report {out_dir}", markup=False, soft_wrap=True)


def _boards(text: str, hardware: Path | None) -> tuple[str, ...]:
    """The board of every device."""
    from fleet.virtual.hardware import known_hardware, parse_boards

    if re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        DEVICES.check(int(text[:30]), "--devices")
        return (BOARD,) * int(text)
    return parse_boards(text, known_hardware(hardware))


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


def _batch(text: str) -> int:
    words = {"auto": 0, "off": 1}
    if text not in words and not (re.fullmatch(r"[0-9]{1,9}", text) and int(text)):
        raise ConfigError(f"--batch-devices {text[:80]!r}: give auto, off, or how many devices")
    return words[text] if text in words else int(text)


def _numbers(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        raise ConfigError(f"--source-classes {text[:80]!r}: give class numbers from 0, such as 0,1,2")
    return tuple(map(int, words))


#: Flags that go with --resume, beside those of `MAY_CHANGE`.
WITH_RESUME = ("resume", "dry_run", "quiet", "as_json")


def _resumed(ctx: typer.Context, folder: Path, asked: SimulationConfig) -> SimulationConfig:
    """The configuration of the run in `folder`, with those flags that may differ."""
    from fleet.simulation.resume import MAY_CHANGE, resumed_config

    given = [p for p in ctx.command.params if p.name and str(ctx.get_parameter_source(p.name)).endswith("COMMANDLINE")]
    for parameter in given:
        if parameter.name not in (*WITH_RESUME, *MAY_CHANGE):
            flag = parameter.opts[0]
            raise ConfigError(f"--resume goes on with the flags of {folder / 'run.json'}; leave out {flag}")
    names = {p.name for p in given}
    changes = {name: getattr(asked, name) for name in MAY_CHANGE if name in names}
    if "engine" in names:
        changes["address"] = asked.address
    return resumed_config(folder, changes)
