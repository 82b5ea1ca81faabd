"""The pictures of the toy: regions and samples where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.experiments.fedgen.toy_figure import draw

STAGES = (0, 50, 60, 70)


def facts() -> dict[str, Any]:
    corners = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]
    samples = [corner for corner in corners for _ in range(2)]
    return {
        "pictures": {name: ["01", "23"] for name in ("user", "taught", "oracle")},
        "points": [[0.0, 1.0, 0], [1.0, 0.0, 1]],
        "all points": [[0.0, 1.0, label] for label in range(4)],
        "of user": {"user": 48.24, "taught": 70.0, "oracle": 99.96},
        "samples": {str(steps): samples if steps else [[9.0, 0.0], *samples[1:]] for steps in STAGES},
        **{f"right at {steps}": float(steps) for steps in STAGES},
    }


def test_titles_tell_accuracies_and_steps() -> None:
    figure = draw(facts(), 3, STAGES, 2.0)
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles == [
        "first user alone  48.2 %",
        "with the generator  70.0 %",
        "oracle  100.0 %",
        "0 steps: 0 % right",
        "50 steps: 50 % right",
        "60 steps: 60 % right",
        "70 steps: 70 % right",
    ]
    assert "seed 3" in str(figure.get_suptitle())


def test_regions_have_the_first_row_below_and_the_oracle_has_all_points() -> None:
    figure = draw(facts(), 0, STAGES, 2.0)
    user, _, oracle = figure.axes[:3]
    (image,) = user.images
    assert np.asarray(image.get_array()).tolist() == [[0, 1], [2, 3]]
    assert (image.origin, tuple(image.get_extent())) == ("lower", (-2.0, 2.0, -2.0, 2.0))
    assert [len(axes.collections[0].get_offsets()) for axes in (user, oracle)] == [2, 4]  # type: ignore[arg-type]


def test_samples_have_the_labels_they_were_made_for_and_none_is_cut_off() -> None:
    wild, tame = draw(facts(), 0, STAGES, 2.0).axes[4:6]
    assert np.asarray(tame.collections[0].get_array()).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert wild.get_xlim()[1] > 9.0
    assert 2.0 <= tame.get_xlim()[1] < 3.0
