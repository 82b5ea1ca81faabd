"""ResNet-8 on CIFAR-10: fleets that differ in one thing, and rounds held against half of FedAvg's."""

from __future__ import annotations

from dataclasses import replace

from tests.fleet.experiments.feddf.made_up import cells_of, configs, made_up


def test_cifar_holds_rounds_against_half_of_fedavg_s() -> None:
    results = made_up("feddf-cifar")
    cells = cells_of("feddf-cifar")
    cell = cells["alpha 0.1: rounds of FedDF to FedAvg's best"]
    assert cell.target is not None
    assert not isinstance(cell.target.bound, float)
    # FedAvg is best in its last round of 8, FedDF is better from the first on
    assert (cell.ours.value(results), cell.target.bound.value(results)) == (1.0, 4.0)


def test_every_fleet_differs_from_the_first_in_what_its_name_says() -> None:
    fleets = configs("feddf-cifar")
    base = fleets["feddf alpha 1"]
    assert fleets["feddf alpha 0.1"] == replace(base, alpha=0.1)
    assert fleets["feddf noise"] == replace(base, source="noise")
    assert fleets["feddf previous"] == replace(base, fusion={**base.fusion, "start": "previous"})
    assert fleets["feddf 1-bit"] == replace(base, prototypes=("resnet8:w1",))
    average = fleets["fedavg 1-bit"]
    assert fleets["fedavg 1-bit bn last"] == replace(average, fusion={"bn": "last"})


def test_the_gain_of_1_bit_devices_is_held_against_both_kinds_of_statistics() -> None:
    results, cells = made_up("feddf-cifar"), cells_of("feddf-cifar")
    for name in ("1-bit: FedDF - FedAvg", "1-bit: FedDF - FedAvg bn=last"):
        gain = cells[name]
        assert gain.ours.value(results) == 10.0
        assert gain.target is not None
        assert [gain.target.met(value, 8.0) for value in (7.9, 8.0)] == [False, True]
