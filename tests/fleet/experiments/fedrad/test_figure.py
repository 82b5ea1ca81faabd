"""Bars of FedRAD's errors."""

from fleet.experiments.fedrad.table1 import EXPERIMENT


def test_the_figure_has_a_bar_for_every_run_that_was_made():
    results = {
        ("paper", 0): {"FedRAD IID 10 faulty": {"error": 3.0}, "FA IID 10 faulty": {"error": 90.2}},
        ("paper", 1): {"FedRAD IID 10 faulty": {"error": 4.0}},
        ("reference", 0): {"FedRAD IID 10 faulty": {"error": 5.4}},
    }
    figure = EXPERIMENT.draw(results)
    heights = [sorted(bar.get_height() for bar in axes.patches) for axes in figure.axes]
    assert heights == [[3.5, 90.2], [], []]


def test_bars_of_an_attack_stand_side_by_side_in_the_colours_of_the_legend():
    results = {
        ("paper", 0): {
            "FedRAD alpha 0.1 5+5": {"error": 2.0},
            "FA alpha 0.1 5+5": {"error": 8.0},
            "COMED IID 10 faulty": {"error": 4.0},
        }
    }
    figure = EXPERIMENT.draw(results)
    iid, _, alpha = figure.axes
    two, eight = sorted(alpha.patches, key=lambda bar: bar.get_height())
    assert abs(two.get_x() - eight.get_x()) >= two.get_width() - 1e-9
    assert (round(two.get_x() + two.get_width() / 2), round(eight.get_x() + eight.get_width() / 2)) == (3, 3)
    assert two.get_facecolor() != eight.get_facecolor()
    assert [axes.get_title() for axes in figure.axes] == ["IID", "alpha 0.5", "alpha 0.1"]
    (legend,) = figure.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == ["COMED", "FA", "FedRAD"]
    assert iid.get_yscale() == "log"
