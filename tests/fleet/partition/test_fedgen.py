"""FedGen's partition: the structure on made labels, the published seed-42 split on MNIST itself."""

import numpy as np
import pytest

from core.errors import ConfigError
from fleet.data import load
from fleet.partition import fedgen, fedgen_test
from tests.data_here import needs

LABELS = np.repeat(np.arange(5), 200)  # N = 1000


def test_each_class_keeps_the_smaller_of_the_cap_and_its_ratio() -> None:
    # 4 devices, ratio 0.5: cap = 0.5 * 1000 / 4 = 125, and half of 200 is 100
    assert np.bincount(LABELS[np.concatenate(fedgen(LABELS, 4, alpha=1.0))]).tolist() == [100] * 5
    # 10 devices: cap = 50
    assert np.bincount(LABELS[np.concatenate(fedgen(LABELS, 10, alpha=1.0, min_size=1))]).tolist() == [50] * 5


def test_a_device_at_the_cap_gets_nothing_more() -> None:
    parts = fedgen(LABELS, 5, alpha=0.02, min_size=0)  # cap = 100 = all that is kept of one class
    assert max(len(part) for part in parts) < 200  # below the cap plus one class


def test_samples_of_a_device_lie_class_by_class() -> None:
    for part in fedgen(LABELS, 4, alpha=1.0):
        changes = int((np.diff(LABELS[part]) != 0).sum())
        assert changes == len(np.unique(LABELS[part])) - 1


def test_the_smallest_device_has_the_minimum() -> None:
    assert min(len(part) for part in fedgen(LABELS, 4, alpha=0.3, min_size=40)) >= 40


def test_an_alpha_that_underflows_ends_in_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="partition fedgen: no draw in 20"):
        fedgen(LABELS, 4, alpha=1e-5, min_size=50, tries=20)


def test_a_ratio_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ratio 1\.5"):
        fedgen(LABELS, 4, ratio=1.5)


def test_test_slices_hold_seen_labels_only_and_are_disjoint() -> None:
    labels = np.array([0, 0, 1, 1, 2])
    parts = [np.array([0, 2]), np.array([1, 4])]  # device 0 sees 0 and 1, device 1 sees 0 and 2
    test_labels = np.array([0, 1, 2, 0, 1, 2, 0, 0])  # class 0 at 0 3 6 7; 1 at 1 4; 2 at 2 5
    assert [s.tolist() for s in fedgen_test(parts, labels, test_labels)] == [[0, 3, 1], [6, 7, 2]]


def test_a_class_without_test_samples_gives_an_empty_slice() -> None:
    assert [s.tolist() for s in fedgen_test([np.array([0])], np.array([1]), np.array([0]))] == [[]]


@pytest.mark.data
@pytest.mark.parametrize(
    ("alpha", "smallest", "largest", "labels_per_device", "test_images"),
    [
        (0.05, 21, 2317, 3.55, 3525),
        (0.1, 121, 1825, 5.35, 5307),
        (1.0, 468, 1187, 9.85, 9764),
        (10.0, 658, 852, 10, 9900),
    ],
)
def test_seed_42_on_mnist_is_the_split_of_the_published_tables(
    alpha: float, smallest: int, largest: int, labels_per_device: float, test_images: int
) -> None:
    needs("mnist")
    data = load("mnist")
    parts = fedgen(data.y_train, 20, alpha=alpha, seed=42)
    sizes = [len(part) for part in parts]
    assert (min(sizes), max(sizes), sum(sizes)) == (smallest, largest, 15_000)
    assert np.bincount(data.y_train[np.concatenate(parts)]).tolist() == [1500] * 10
    assert np.mean([len(np.unique(data.y_train[part])) for part in parts]) == pytest.approx(labels_per_device)
    slices = fedgen_test(parts, data.y_train, data.y_test)
    assert len(np.unique(np.concatenate(slices))) == test_images == sum(len(s) for s in slices)
