"""Figures: there when there is something to show, different where the numbers are, told apart without colour."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from fleet.report.figures.accuracy import draw_accuracy, draw_comparison
from fleet.report.figures.devices import draw_scores, partitions, verdicts
from fleet.report.figures.style import COLOURS, DARK, LIGHT, ON_DARK, png, series, short
from fleet.report.figures.times import draw_times
from fleet.report.figures.traffic import draw_bytes, draw_rounds_to_target
from tests.fleet.report.made import BIT, CNN, a_run, facts


def lines(figure: Figure, panel: int = 0) -> dict[str, list[float]]:
    """Labelled lines of a panel with their values."""
    return {str(line.get_label()): list(line.get_ydata()) for line in figure.axes[panel].lines}


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_curves_are_those_of_the_prototypes_with_precision_and_ensemble(tmp_path: Path) -> None:
    found = lines(draw_accuracy([facts(tmp_path / "run")], LIGHT))
    assert found[CNN] == pytest.approx([50, 70, 90])
    assert found[BIT] == pytest.approx([25, 45, 65]), "the bold line is what boards run"
    assert found[f"{BIT}, float weights"] == pytest.approx([37.5, 57.5, 77.5])
    assert found["ensemble"] == pytest.approx([95, 95, 95])


def test_a_prototype_has_one_colour_in_all_panels(tmp_path: Path) -> None:
    turned = a_run()
    for number, result in enumerate(turned.rounds):
        turned.rounds[number].prototypes.update(dict(reversed(result.prototypes.items())))
    runs = [facts(tmp_path / "a"), facts(tmp_path / "b", turned)]
    figure = draw_accuracy(runs, LIGHT)
    colours = [{ln.get_label(): ln.get_color() for ln in axes.lines} for axes in figure.axes]
    assert colours[0][CNN] == colours[1][CNN] != colours[0][BIT]


def test_runs_are_compared_by_the_mean_of_their_prototypes(tmp_path: Path) -> None:
    runs = [facts(tmp_path / "a"), facts(tmp_path / "b", a_run((0.3, 0.4, 0.5)))]
    figure = draw_comparison(runs, LIGHT)
    assert figure is not None
    assert lines(figure)["b"] == pytest.approx([17.5, 27.5, 37.5])
    assert draw_comparison(runs[:1], LIGHT) is None


def test_the_target_is_marked_where_it_was_reached_and_said_where_not(tmp_path: Path) -> None:
    figure = draw_rounds_to_target([facts(tmp_path / "run")], LIGHT, 0.7)
    assert texts(figure) == ["round 2", "not reached"]


def test_bytes_add_up_from_round_to_round(tmp_path: Path) -> None:
    figure = draw_bytes([facts(tmp_path / "run")], LIGHT)
    assert list(figure.axes[0].lines[0].get_xdata()) == pytest.approx([4, 8, 12])
    assert list(figure.axes[0].lines[1].get_xdata()) == pytest.approx([3.01, 6.02, 9.03])


def test_verdicts_gather_what_fusion_said_of_a_device(tmp_path: Path) -> None:
    by_name = {v.device: v for v in verdicts(facts(tmp_path / "run"))}
    assert list(by_name) == ["sim-0", "sim-2", "sim-1", "sim-3"], "by prototype"
    bad = by_name["sim-3"]
    assert (bad.attack, bad.left_out, bad.reason) == ("faulty", 3, "is hardly ever the median")
    assert bad.scores == (0.015625, 0.03125, 0.046875)


def test_attackers_have_a_mark_of_their_own(tmp_path: Path) -> None:
    figure = draw_scores([facts(tmp_path / "run")], LIGHT)
    assert figure is not None
    marks = {line.get_marker(): list(line.get_xdata()) for line in figure.axes[0].lines if len(line.get_xdata()) != 2}
    assert marks == {"o": [0, 1, 2], "X": [3]}
    assert figure.axes[0].get_ylabel() == "median score"


def test_without_scores_the_shares_are_drawn_and_without_either_nothing(tmp_path: Path) -> None:
    figure = draw_scores([facts(tmp_path / "plain", a_run(scored=False))], LIGHT)
    assert figure is not None
    assert figure.axes[0].get_ylabel() == "share of its average"
    silent = a_run()
    for result in silent.rounds:
        result.devices.clear()
    assert draw_scores([facts(tmp_path / "silent", silent)], LIGHT) is None


def test_equal_partitions_are_drawn_once(tmp_path: Path) -> None:
    other = a_run()
    other.fleet[0]["labels"] = [9, 1]
    runs = [facts(tmp_path / "a"), facts(tmp_path / "b"), facts(tmp_path / "c", other)]
    assert [names for names, _ in partitions(runs)] == ["a, b", "c"]


def test_bars_of_time_end_at_the_sum(tmp_path: Path) -> None:
    figure = draw_times([facts(tmp_path / "run")], LIGHT)
    assert max(patch.get_x() + patch.get_width() for patch in figure.axes[0].patches) == pytest.approx(30)
    assert texts(figure) == ["30.0 s"]


def test_two_lines_never_look_alike_in_grey() -> None:
    looks = [(style["marker"], str(style["linestyle"])) for style in (series(n, LIGHT) for n in range(24))]
    assert len(set(looks)) == 24


def contrast(a: str, b: str) -> float:
    """WCAG's contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_what_is_written_can_be_read_and_lines_can_be_seen(theme) -> None:
    assert contrast(theme.ink, theme.ground) > 12
    assert contrast(theme.grey, theme.ground) > 4.5
    assert contrast(theme.alarm, theme.ground) > 4.5
    assert all(contrast(colour, theme.ground) > 2.2 for colour in theme.colours)


def test_both_themes_have_as_many_colours() -> None:
    assert len(set(COLOURS)) == len(set(ON_DARK)) == 8


def test_the_same_run_gives_the_same_picture(tmp_path: Path) -> None:
    run = facts(tmp_path / "run")
    assert png(draw_times([run], LIGHT)) == png(draw_times([run], LIGHT))


def test_names_are_no_formulas_and_not_too_long() -> None:
    assert short("a$b$") == r"a\$b\$"
    assert short("x" * 50) == "…" + "x" * 33
