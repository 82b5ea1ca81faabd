"""Randomness by purpose."""

import core.seeds
from fleet.simulation.seeds import derive_seed, numpy_rng, torch_rng


def test_a_purpose_has_one_seed_on_every_machine() -> None:
    assert derive_seed(0, "train", 1, "sim-00") == derive_seed(0, "train", 1, "sim-00")
    assert derive_seed(0, "sample", 1) == 9042265680981019760


def test_purposes_and_seeds_do_not_share_numbers() -> None:
    seeds = {derive_seed(s, p, r) for s in range(5) for p in ("train", "invite") for r in range(5)}
    assert len(seeds) == 50
    assert all(0 <= s < 2**63 for s in seeds)


def test_the_generators_are_seeded_by_the_purpose() -> None:
    assert numpy_rng(1, "a").integers(1000, size=5).tolist() == numpy_rng(1, "a").integers(1000, size=5).tolist()
    assert torch_rng(1, "a").initial_seed() == derive_seed(1, "a")


def test_devices_draw_from_the_same_function() -> None:
    assert derive_seed is core.seeds.derive_seed
