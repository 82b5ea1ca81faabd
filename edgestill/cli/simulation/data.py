"""`edgestill data`: lists and fetches datasets, and shows how a fleet would partition them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgestill.cli import completion
from edgestill.cli.output import err, out, print_json, print_table

if TYPE_CHECKING:
    from fleet.data.download.fetch import Report
    from fleet.data.registry import Known
    from fleet.results.partition_plot import Counts

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Datasets: list them, fetch them, show how a fleet would partition them.")

_ROWS = 50  # rows of the table of devices; --json has all


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the known datasets, and whether they are on this machine or how to get them.

    Use your own data by its path: a folder of pictures with one subfolder per class, an .npz or a .csv (docs/data.md).
    """
    from fleet.data import DATASETS
    from fleet.data.files import data_folder

    facts = [_facts(known) for known in DATASETS.values()]
    if as_json:
        print_json(facts)
        return
    rows = [
        [
            fact["name"],
            fact["kind"],
            "x".join(map(str, fact["shape"])) if fact["shape"] else "words",
            fact["classes"],
            "" if fact["train"] is None else f"{fact['train']:,}",
            "" if fact["test"] is None else f"{fact['test']:,}",
            fact["variant"] or "no",
        ]
        for fact in facts
    ]
    print_table("", ["name", "kind", "sample", "classes", "train", "test", "here"], rows)
    if any(fact["get"] for fact in facts):
        out.print("\nto download a dataset: edgestill data fetch NAME", soft_wrap=True)
    out.print(f"\nsearched: {data_folder()} (set EDGESTILL_DATA to use another folder)", markup=False, soft_wrap=True)


def _facts(known: Known) -> dict[str, Any]:
    """The row of one dataset; sizes only if it is on this machine."""
    present = known.found()
    sizes: tuple[int, int] | tuple[None, None] = present[0].sizes if present else (None, None)
    folder = str(present[1][0].parent) if present else None
    variant = None if present is None else ("full" if present[0].sizes == known.variants[0].sizes else "subset")
    if not known.variants:
        sizes, folder, variant = (1438, 359), "scikit-learn", "full"
    return {
        "name": known.name,
        "kind": known.kind,
        "shape": known.shape,
        "classes": known.classes,
        "train": sizes[0],
        "test": sizes[1],
        "where": folder,
        "variant": variant,
        "get": None if folder else f"edgestill data fetch {known.name}",
    }


@app.command()
def fetch(
    name: Annotated[
        str, typer.Argument(help="Name of a dataset (`edgestill data list`).", autocompletion=completion.datasets)
    ],
    to: Annotated[Path | None, typer.Option(help="Folder; default EDGESTILL_DATA, else the user's cache.")] = None,
    mirror: Annotated[str | None, typer.Option(help="Base URL to use instead of the public mirrors.")] = None,
) -> None:
    """Download a dataset from its public mirrors; resumes interrupted downloads and verifies checksums.

    Example:  edgestill data fetch mnist
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from fleet.data.download.fetch import fetch as download
    from fleet.data.files import data_folder

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        paths = download(name, to, mirror=mirror, report=_reporter(bar))
    folder = paths[0].parent
    files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    out.print(f"{name}: {files} in {folder}", markup=False, soft_wrap=True)
    if folder.parent.resolve() != data_folder().resolve():
        out.print(f"to use it: export EDGESTILL_DATA={folder.parent.resolve()}", markup=False, soft_wrap=True)


def _reporter(bar: Any) -> Report:
    """A progress bar per file, created when its first bytes arrive."""
    tasks: dict[str, Any] = {}

    def report(file: str, done: int, total: int) -> None:
        if file not in tasks:
            tasks[file] = bar.add_task(file)
        bar.update(tasks[file], completed=done, total=total)

    return report


_Alpha = Annotated[float, typer.Option(help="Dirichlet concentration: 0.1 is very non-IID, 100 close to IID.")]
_Partition = Annotated[
    str, typer.Option(help="dirichlet, iid, iid-skew, shards, fedgen, feddf, fedrad or fedrad-iid; see docs/data.md.")
]
_Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="Partition option, such as min_size=0 or classes_per_device=3; repeatable."),
]
_Picture = Annotated[
    Path | None,
    typer.Option("--out", help="The PNG file to draw; default NAME-PARTITION.png, with --json none."),
]


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name or path of a dataset.", autocompletion=completion.datasets)],
    devices: Annotated[int, typer.Option(help="Number of devices.")] = 20,
    alpha: _Alpha = 0.1,
    partition: _Partition = "dirichlet",
    option: _Options = None,
    seed: Annotated[int, typer.Option(help="Random seed of the partition.")] = 0,
    out_file: _Picture = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the samples of every class.")] = False,
) -> None:
    """Show how a dataset would be partitioned: a table, and a dot plot as a PNG file.

    Example:  edgestill data show mnist --devices 20 --alpha 0.1 --out split.png
    """
    from core.files import named_file
    from core.limits import ALPHA, DEVICES, SEED
    from fleet.data import load
    from fleet.partition import parse_options, uses_alpha
    from fleet.partition import partition as split
    from fleet.results.partition_plot import count_labels, draw_dotplot

    _check_picture(out_file)
    DEVICES.check(devices, "--devices")
    ALPHA.check(alpha, "--alpha")
    SEED.check(seed, "--seed")
    uses = uses_alpha(partition)
    options = parse_options(option or [])
    dataset = load(name)
    parts = split(partition, dataset.y_train, devices=devices, alpha=alpha, seed=seed, **options)
    counts = count_labels(dataset.y_train, parts, dataset.classes)
    if out_file is None and not as_json:
        out_file = Path(f"{dataset.name}-{partition}.png")
    if out_file is not None:
        split_text = f"{partition}, alpha {alpha:g}" if uses else partition
        title = f"{dataset.name}: {devices} devices, {split_text}, seed {seed}"
        draw_dotplot(counts, dataset.class_names, named_file(out_file), title=title)
    if as_json:
        facts = {"dataset": dataset.name, "variant": dataset.variant, "train": len(dataset.y_train)}
        facts |= {"partition": partition, "alpha": alpha if uses else None, "seed": seed, "options": options}
        classes = list(dataset.class_names)
        print_json({**facts, "class_names": classes, "devices": [_device(row) for row in counts]})
        return
    _print_devices(counts, dataset.class_names)
    out.print(f"wrote {out_file}", markup=False, soft_wrap=True)


def _check_picture(path: Path | None) -> None:
    from core.errors import ConfigError

    if path is not None and path.suffix.lower() != ".png":
        raise ConfigError(f"--out {path}: the picture is a PNG; give a name that ends in .png")
    if path is not None and not path.parent.is_dir():
        raise ConfigError(f"--out {path}: there is no folder {path.parent}; create it first")


def _device(row: Any) -> dict[str, Any]:
    return {"samples": int(row.sum()), "counts": row.tolist()}


def _print_devices(counts: Counts, class_names: tuple[str, ...]) -> None:
    rows = []
    for device, row in enumerate(counts[:_ROWS]):
        samples = int(row.sum())
        top = int(row.argmax())
        share = f"{class_names[top]} {100 * row[top] / samples:.0f} %" if samples else ""
        rows.append([device, f"{samples:,}", int((row > 0).sum()), share])
    print_table("", ["device", "samples", "classes", "largest class"], rows)
    if len(counts) > _ROWS:
        out.print(f"… and {len(counts) - _ROWS:,} more; --json has all")
    sizes = counts.sum(axis=1)
    seen = (counts > 0).sum(axis=1).mean()
    out.print(
        f"\n{len(counts):,} devices hold {sizes.sum():,} samples: {sizes.min():,} to {sizes.max():,} each, "
        f"{seen:.2f} of {counts.shape[1]} classes on average",
        soft_wrap=True,
    )
