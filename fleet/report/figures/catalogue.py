"""The figures of a report, in page order: title, caption, text alternative and drawing function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from fleet.report.facts import RunFacts
from fleet.report.figures.accuracy import draw_accuracy, draw_comparison
from fleet.report.figures.devices import MOST, draw_partition, draw_scores, partitions
from fleet.report.figures.style import DARK, LIGHT, Theme, png
from fleet.report.figures.times import draw_times
from fleet.report.figures.traffic import draw_bytes, draw_rounds_to_target
from fleet.report.figures.virtual import draw_virtual, missed, virtual_seconds
from fleet.report.summary import mean_quality, run_row
from fleet.report.units import percent, span

__all__ = ["Picture", "draw_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One figure, drawn for a light and for a dark page."""

    name: str  # of its file and its anchor
    title: str
    caption: str
    alt: str  # text alternative
    light: bytes
    dark: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    name: str
    title: str
    caption: str
    alt: str
    draw: Callable[[Theme], Figure | None]


def draw_all(runs: Sequence[RunFacts], target: float) -> list[Picture]:
    """Every figure for which the runs have data."""
    pictures = []
    for plan in _plans(runs, target):
        light, dark = plan.draw(LIGHT), plan.draw(DARK)
        if light is not None and dark is not None:
            fields = {"name": plan.name, "title": plan.title, "caption": plan.caption, "alt": plan.alt}
            pictures.append(Picture(**fields, light=png(light), dark=png(dark)))
    return pictures


def _plans(runs: Sequence[RunFacts], target: float) -> list[_Plan]:
    return [*_quality(runs, target), _scores(runs), *_partitions(runs), _boards(runs), _times(runs, target)]


def _quality(runs: Sequence[RunFacts], target: float) -> list[_Plan]:
    """Figures of accuracy over rounds and bytes."""
    goal = f"{100 * target:g} %"
    return [
        _Plan(
            name="comparison",
            title="Runs against each other",
            caption="A line per run: the mean accuracy of its prototypes after each round.",
            alt="; ".join(f"{run.name} ends at {percent(mean_quality(run.last))}" for run in runs),
            draw=partial(draw_comparison, runs),
        ),
        _Plan(
            name="accuracy",
            title="Accuracy by round",
            caption="Each prototype's model on the whole test set, as a board runs it; dotted: the same model of a "
            "quantized prototype with float weights. Dashed, if the recipe distills: the ensemble of all teachers.",
            alt=_final(runs),
            draw=partial(draw_accuracy, runs),
        ),
        _Plan(
            name="rounds",
            title=f"Rounds to {goal}",
            caption=f"The first round after which a prototype's accuracy was at least {goal}.",
            alt=_rounds(runs, target),
            draw=partial(draw_rounds_to_target, runs, target=target),
        ),
        _Plan(
            name="bytes",
            title="Bytes against accuracy",
            caption="Bytes sent and received by all devices of each prototype, on a logarithmic scale: further left is "
            "cheaper, further up is better.",
            alt=_final(runs),
            draw=partial(draw_bytes, runs),
        ),
    ]


def _scores(runs: Sequence[RunFacts]) -> _Plan:
    return _Plan(
        name="scores",
        title="Devices in fusion",
        caption="Median scores (the share of the median logits that are the device's own) where the recipe has "
        "them, otherwise the device's share of its prototype's average. Crosses are adversarial devices"
        f"{f'; the first {MOST} devices are shown' if any(len(r.fleet) > MOST for r in runs) else ''}.",
        alt=_attackers(runs),
        draw=partial(draw_scores, runs),
    )


def _partitions(runs: Sequence[RunFacts]) -> list[_Plan]:
    """One figure per distinct partition."""
    plans, several = [], partitions(runs)
    for position, (names, run) in enumerate(several, 1):
        which = f", {position} of {len(several)}" if len(several) > 1 else ""
        plans.append(
            _Plan(
                name="partition" if len(several) == 1 else f"partition-{position}",
                title=f"Samples by device{which}",
                caption="A dot per device and class; its area is the number of samples that the device reports"
                f"{f' in {names}' if which else ''}.",
                alt=f"{len(run.fleet)} devices hold {sum(d.examples for d in run.fleet):,} samples",
                draw=partial(draw_partition, run),
            )
        )
    return plans


def _boards(runs: Sequence[RunFacts]) -> _Plan:
    return _Plan(
        name="virtual",
        title="On boards",
        caption="Virtual time: an estimate for the boards. Left, accuracy over that time; right, the energy of one "
        "device of each board.",
        alt="; ".join(f"{run.name}: {span(virtual_seconds(run))}, {missed(run)}" for run in runs if run.virtual),
        draw=partial(draw_virtual, runs),
    )


def _times(runs: Sequence[RunFacts], target: float) -> _Plan:
    return _Plan(
        name="time",
        title="Where the time went",
        caption="Seconds of work by stage, all rounds together: with several workers more than the rounds took. "
        "Average includes screening and weighing, score is that of models and ensembles, the rest is what lies "
        "between the stages (over MQTT: the devices and the way to them).",
        alt="; ".join(f"{run.name}: {_split(run, target)}" for run in runs),
        draw=partial(draw_times, runs),
    )


def _final(runs: Sequence[RunFacts]) -> str:
    lines = []
    for run in runs:
        scores = ", ".join(f"{name} {percent(run.scored(name)[-1][1].accuracy)}" for name in run.prototypes)
        lines.append(f"{run.name} after round {run.last.round}: {scores}")
    return "; ".join(lines)


def _rounds(runs: Sequence[RunFacts], target: float) -> str:
    lines = []
    for run in runs:
        for row in run_row(run, target)["prototypes"]:
            first = row["rounds_to_target"]
            lines.append(f"{run.name}, {row['prototype']}: {'not reached' if first is None else f'round {first}'}")
    return "; ".join(lines)


def _attackers(runs: Sequence[RunFacts]) -> str:
    lines = [f"{run.name}: attackers are {', '.join(run.attackers)}" for run in runs if run.attackers]
    return "; ".join(lines) or "no device was adversarial"


def _split(run: RunFacts, target: float) -> str:
    return ", ".join(f"{stage} {span(seconds)}" for stage, seconds in run_row(run, target)["seconds_by"].items())
