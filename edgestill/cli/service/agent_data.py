"""`edgestill agent data` and `collect`: what a board's samples are, and how a folder of them is filled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgestill.cli.output import one_line, out, print_json, print_table
from edgestill.cli.service.options import Overrides

if TYPE_CHECKING:
    from edge_agent.samples.survey import Survey

__all__ = ["collect", "data"]

_Config = Annotated[Path, typer.Option("--config", "-c", help="The agent.toml.")]
SHOWN, FEW = 20, 5  # rejected files, and what is passed over; --json has more


def data(
    config: _Config,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    contact_sheet: Annotated[
        Path | None, typer.Option("--contact-sheet", help="Write a picture of a few samples of each class to this PNG.")
    ] = None,
    settings: Overrides = None,
) -> None:
    """Show the samples that the agent trains on: counts per class, held out, unlabeled, set aside and why.

    Example:  edgestill agent data --config agent.toml --contact-sheet sheet.png
    """
    import msgspec

    from edge_agent.config import read_agent_config
    from edge_agent.samples.contact_sheet import write_contact_sheet
    from edge_agent.samples.read import survey_samples
    from edge_agent.samples.spec import spec_of
    from edge_agent.samples.task_file import read_task

    loaded = read_agent_config(config, settings=settings or ())
    spec, known = spec_of(loaded.data, loaded.train.memory_mb), read_task(loaded.state_dir)
    survey, _, choice = survey_samples(spec, loaded.state_dir, known)
    if contact_sheet is not None:
        write_contact_sheet(contact_sheet, spec, choice, known)
    if as_json:
        print_json({**msgspec.to_builtins(survey), "task": msgspec.to_builtins(known)})
        return
    _print(survey)
    if known is None:
        out.print("the fleet's task is not known yet: it comes with the first model", soft_wrap=True)
    if contact_sheet is not None:
        out.print(f"contact sheet: {contact_sheet}", soft_wrap=True)


def _print(survey: Survey) -> None:
    out.print(f"{survey.path} ({survey.kind}): {survey.waiting or 'ready to train'}", soft_wrap=True)
    names = [*survey.counts, *(name for name in survey.held_counts if name not in survey.counts), *survey.lacks]
    rows = [[name, survey.counts.get(name, 0), survey.held_counts.get(name, 0)] for name in names]
    if rows:
        print_table("", ["class", "training", "held out"], [*rows, ["in all", survey.training, survey.held_out]])
    for text, count in (
        ("unlabeled, waiting for a label", survey.unlabeled),
        ("expired", survey.expired),
        ("left out by [data] max_samples, max_per_class or memory", survey.capped),
        ("still being written", survey.writing),
        ("set aside", survey.rejected_count),
    ):
        if count:
            out.print(f"{text}: {count}")
    for name, count in survey.unknown.items():
        out.print(f"not a class of the fleet: {one_line(name)}: {count}", soft_wrap=True)
    for name, reason in list(survey.rejected.items())[:SHOWN]:
        out.print(f"  {one_line(name)}: {one_line(reason)}", soft_wrap=True)
    if survey.rejected_count > SHOWN:
        out.print(f"  … and {survey.rejected_count - SHOWN} more; --json has them")
    if survey.passed_over_count:
        out.print(f"passed over: {survey.passed_over_count}")
    for name, reason in list(survey.passed_over.items())[:FEW]:
        out.print(f"  {one_line(name)}: {one_line(reason)}", soft_wrap=True)
    if survey.passed_over_count > FEW:
        out.print(f"  … and {survey.passed_over_count - FEW} more; --json has them")


def collect(
    config: _Config,
    label: Annotated[str, typer.Option("--label", help="The class that is in front of the sensor.")],
    camera: Annotated[
        bool, typer.Option("--camera", help="Take pictures: rpicam-still, libcamera-still or OpenCV.")
    ] = False,
    source: Annotated[
        str | None, typer.Option("--from", help="A command that prints a picture, or the path of one, to stdout.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=100_000, help="Pictures to take.")] = 1,
    every: Annotated[float, typer.Option("--every", min=0.0, max=86_400.0, help="Seconds between two pictures.")] = 1.0,
    settings: Overrides = None,
) -> None:
    """Fill the class folder of [data] path from the board's own camera, or from any command.

    Example:  edgestill agent collect --config agent.toml --label apple --camera --count 20 --every 2
    """
    if camera == (source is not None):
        raise typer.BadParameter("give either --camera or --from")
    from edge_agent.collect import collect_pictures
    from edge_agent.config import read_agent_config

    loaded = read_agent_config(config, settings=settings or ())
    for path in collect_pictures(loaded, label, command=source, count=count, every=every):
        out.print(str(path), soft_wrap=True)
        out.file.flush()
