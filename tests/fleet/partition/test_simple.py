"""IID, quantity skew, Dirichlet and shards on labels small enough to count by hand."""

import numpy as np
import pytest

from core.errors import ConfigError
from fleet.partition import dirichlet, iid, iid_skew, shards

LABELS = np.repeat(np.arange(4), 25)  # 100 samples, 4 classes


def counts(parts: list[np.ndarray], labels: np.ndarray = LABELS) -> np.ndarray:
    return np.array([np.bincount(labels[part], minlength=4) for part in parts])


def test_iid_pieces_differ_by_one_sample_at_most() -> None:
    assert [len(part) for part in iid(LABELS, 3)] == [34, 33, 33]


def test_iid_pieces_are_random_in_their_labels() -> None:
    assert (counts(iid(LABELS, 4)) > 0).all()  # file order would give one class each


def test_quantity_skew_keeps_the_minimum_and_uses_everything() -> None:
    sizes = [len(part) for part in iid_skew(LABELS, 10, alpha=0.05, min_size=3)]
    assert sum(sizes) == 100
    assert min(sizes) == 3
    assert max(sizes) > 30  # 70 samples are skewed; alpha 0.05 gives most of them to one or two


def test_quantity_skew_at_a_large_alpha_is_nearly_even() -> None:
    sizes = [len(part) for part in iid_skew(LABELS, 10, alpha=1e6)]
    assert max(sizes) - min(sizes) <= 1


def test_a_minimum_that_the_samples_cannot_fill_is_refused() -> None:
    with pytest.raises(ConfigError, match="min_size 11 for 10 devices of 100 samples"):
        iid_skew(LABELS, 10, min_size=11)


def test_dirichlet_at_a_large_alpha_gives_every_device_every_class_evenly() -> None:
    np.testing.assert_allclose(counts(dirichlet(LABELS, 5, alpha=1e9)), 5, atol=1)


def test_dirichlet_at_a_small_alpha_gives_most_of_a_class_to_one_device() -> None:
    drawn = counts(dirichlet(LABELS, 4, alpha=0.01, min_size=0))
    assert (drawn.max(axis=0) >= 20).all()


def test_dirichlet_redraws_until_the_smallest_device_has_the_minimum() -> None:
    without = min(len(part) for part in dirichlet(LABELS, 8, alpha=0.3, min_size=0, seed=1))
    redrawn = min(len(part) for part in dirichlet(LABELS, 8, alpha=0.3, min_size=6, seed=1))
    assert without < 6 <= redrawn


def test_dirichlet_gives_up_with_what_to_change() -> None:
    with pytest.raises(ConfigError, match=r"no draw in 5 .* 20 devices 5 or more .* alpha 0\.01; take fewer devices"):
        dirichlet(LABELS, 20, alpha=0.01, min_size=5, tries=5)


def test_a_device_with_few_classes_has_them_in_random_order() -> None:
    part = dirichlet(LABELS, 2, alpha=100.0)[0]
    assert (np.diff(LABELS[part]) < 0).any()  # class by class would never step down


def test_shards_give_each_device_its_number_of_classes() -> None:
    drawn = counts(shards(LABELS, 10, classes_per_device=2, seed=3))  # 20 shards of 5, five to a class
    assert ((drawn > 0).sum(axis=1) <= 2).all()
    assert (drawn.sum(axis=1) == 10).all()
    assert ((drawn > 0).sum(axis=1) == 2).any()


def test_one_class_per_device_is_one_class_per_device() -> None:
    assert ((counts(shards(LABELS, 4, classes_per_device=1)) > 0).sum(axis=1) == 1).all()


@pytest.mark.parametrize("classes", [0, 51])
def test_impossible_shards_are_refused(classes: int) -> None:
    with pytest.raises(ConfigError, match="give 1 to 50 for 2 devices"):
        shards(LABELS, 2, classes_per_device=classes)
