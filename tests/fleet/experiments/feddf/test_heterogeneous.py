"""Three prototypes, and every one of the last rounds."""

from __future__ import annotations

from tests.fleet.experiments.feddf.made_up import cells_of, configs, made_up


def test_heterogeneous_asks_for_every_one_of_the_last_rounds() -> None:
    results = made_up("feddf-heterogeneous")
    cells = cells_of("feddf-heterogeneous")
    ahead, behind = cells["MNIST cnn:w1: FedDF - FedAvg"], cells["MNIST cnn:w1: ensemble - FedDF"]
    assert (ahead.ours.value(results), behind.ours.value(results)) == (10.0, 1.0)
    results["feddf mnist"]["accuracy"]["cnn:w1"][-5] = 40.0
    assert ahead.target is not None
    assert not ahead.target.met(ahead.ours.value(results), 0.0)
    assert behind.ours.value(results) == 26.0
    assert behind.target is not None
    assert not behind.target.met(26.0, 2.0)


def test_unlabeled_samples_are_of_another_domain_and_one_prototype_is_1_bit() -> None:
    for config in configs("feddf-heterogeneous").values():
        assert {config.dataset, config.source} == {"mnist", "fashion_mnist"}
        assert [name for name in config.prototypes if name.endswith(":w1")] == ["cnn:w1"]
        assert config.devices % len(config.prototypes) == 0
