"""FedDF's partition: groups of ten, half the average at least, cut again at equal lengths."""

import numpy as np
import pytest

from core.errors import ConfigError
from fleet.partition import feddf, feddf_validation

LABELS = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 500))  # N = 5000, 4500 for training


def top_share(parts: list[np.ndarray]) -> float:
    return float(np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts]))


def test_validation_is_the_last_tenth_of_the_file() -> None:
    held = feddf_validation(50_000)
    assert (held[0], held[-1], len(held)) == (45_000, 49_999, 5_000)


def test_no_device_gets_a_validation_sample() -> None:
    assert np.concatenate(feddf(LABELS, 20)).max() == 4499


def test_devices_are_of_equal_size() -> None:
    assert [len(part) for part in feddf(LABELS, 20, alpha=0.1)] == [225] * 20


def test_before_the_cut_a_device_has_half_the_average_at_least() -> None:
    sizes = [len(part) for part in feddf(LABELS, 20, alpha=0.1, equal=False)]
    assert sum(sizes) == 4500
    assert min(sizes) >= 112
    assert max(sizes) > min(sizes)


def test_the_equal_cut_makes_small_alphas_milder() -> None:
    for alpha in (0.1, 0.01):
        assert top_share(feddf(LABELS, 20, alpha=alpha)) < top_share(feddf(LABELS, 20, alpha=alpha, equal=False))


def test_the_twenty_first_device_is_alone_in_its_group_and_iid() -> None:
    parts = feddf(LABELS, 21, alpha=0.1)
    shares = [np.bincount(LABELS[part], minlength=10).max() / len(part) for part in parts]
    assert shares[20] < 0.2
    assert np.mean(shares[:20]) > 0.4


def test_two_groups_share_no_draw() -> None:
    # each group holds about half of every class, so ten devices of one group hold half of it in all
    parts = feddf(LABELS, 20, alpha=0.1, equal=False)
    first = np.bincount(LABELS[np.concatenate(parts[:10])], minlength=10)
    np.testing.assert_allclose(first, 225, atol=40)


def test_what_cannot_be_drawn_says_so() -> None:
    with pytest.raises(ConfigError, match="partition feddf: no draw in 3 gave each of 10 devices"):
        feddf(np.array([0] * 10 + [1] * 10 + [0] * 3), 10, alpha=0.001, tries=3)
