"""FedRAD's partitions: three sizes, remainders to the last device, the server's sixth."""

import numpy as np

from fleet.partition import fedrad, fedrad_iid, fedrad_server

LABELS = np.random.default_rng(2).integers(0, 10, 60_000)


def test_iid_sizes_are_those_of_the_paper() -> None:
    sizes = np.array([len(part) for part in fedrad_iid(LABELS, 30)])
    # floors leave 60,000 - 59,985 = 15 samples, which the last device gets on top of its 2580
    assert sizes[-1] == 2595
    assert np.unique(sizes[:-1], return_counts=True)[1].tolist() == [9, 9, 11]
    assert np.unique(sizes[:-1]).tolist() == [1290, 1935, 2580]


def test_the_papers_ten_attackers_hold_a_third_of_the_data() -> None:
    sizes = [len(part) for part in fedrad_iid(LABELS, 30)]
    assert abs(sum(sizes[2::3]) / 60_000 - 1 / 3) < 0.001


def test_the_last_device_gets_what_the_floors_leave() -> None:
    labels = np.zeros(29, np.int64)  # alpha is huge, so each of 10 devices is due 2.9: floor 2, and 29 - 18 = 11
    assert [len(part) for part in fedrad(labels, 10, alpha=1e9)] == [2] * 9 + [11]


def test_devices_may_come_out_small_because_no_minimum_is_kept() -> None:
    sizes = [len(part) for part in fedrad(LABELS[:600], 30, alpha=0.05)]
    assert sum(sizes) == 600
    assert min(sizes) == 0


def test_a_sixth_of_the_samples_goes_to_the_server_and_the_rest_to_devices() -> None:
    server, rest = fedrad_server(60_000, seed=0)
    assert abs(len(server) - 10_000) < 300  # standard deviation 91
    assert np.array_equal(np.sort(np.concatenate([server, rest])), np.arange(60_000))
