"""The dot plot: counts, and a picture whose ink follows them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleet.report.figures.style import COLOURS
from fleet.results.partition_plot import MOST_DEVICES, count_labels, draw_dotplot

BLUE = np.array([int(COLOURS[0][i : i + 2], 16) for i in (1, 3, 5)])


def ink(path: Path) -> np.ndarray:
    """Which pixels (H, W) are of the dots' colour, allowing for its slight transparency."""
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return np.asarray(np.abs(pixels - BLUE).max(axis=2) < 40)


def test_counts_are_by_device_and_class() -> None:
    labels = np.array([0, 2, 2, 1])
    parts = [np.array([0, 1, 2]), np.array([3]), np.array([], np.int64)]
    assert count_labels(labels, parts, 4).tolist() == [[1, 0, 2, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


def test_dot_areas_follow_the_counts(tmp_path: Path) -> None:
    # device 0 holds 400 of class 0 (bottom left), device 1 holds 100 of class 1 (top right)
    draw_dotplot(np.array([[400, 0], [0, 100]]), ("a", "b"), tmp_path / "p.png", title="t")
    dots = ink(tmp_path / "p.png")
    middle = dots.shape[1] // 2
    left, right = dots[:, :middle], dots[:, middle:]
    assert 3.2 < left.sum() / right.sum() < 4.8
    assert np.nonzero(left)[0].mean() > np.nonzero(right)[0].mean()  # class 0 is drawn below class 1


@pytest.mark.parametrize(("devices", "classes"), [(5, 2), (5, 100), (100, 10), (100, 100), (MOST_DEVICES + 50, 10)])
def test_pictures_of_all_sizes_are_moderate_and_hold_their_dots(tmp_path: Path, devices: int, classes: int) -> None:
    counts = np.random.default_rng(0).integers(0, 50, (devices, classes))
    draw_dotplot(counts, tuple(map(str, range(classes))), tmp_path / "p.png", title="t")
    width, height = Image.open(tmp_path / "p.png").size
    assert 300 < width < 1100
    assert 150 < height < 1100
    assert ink(tmp_path / "p.png").mean() > 0.01


def test_a_fleet_without_samples_still_draws(tmp_path: Path) -> None:
    draw_dotplot(np.zeros((2, 2), np.int64), ("a", "b"), tmp_path / "p.png", title="t")
    assert not ink(tmp_path / "p.png").any()
