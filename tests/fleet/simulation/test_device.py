"""Simulated devices: who has what, and what attackers send."""

from dataclasses import replace

import pytest
import torch

from aggregator.fusion.types import Received
from core.errors import ConfigError
from fleet.simulation.device import make_devices
from fleet.simulation.round_message import Artifact
from fleet.simulation.simulation import Simulation
from quant.pack import pack_state
from tests.fleet.simulation.test_simulation import CONFIG, toy
from wire.tensors import decode, encode


def updates_of(simulation: Simulation) -> list[Received]:
    """What the devices send in the first round, as the aggregator reads it."""
    published = {g.name: Artifact(encode(pack_state(g.state))) for g in simulation.groups}
    return [s.update for s in simulation._collect(1, published, lambda _: None) if s.update is not None]


def test_devices_share_the_training_set_and_take_turns_with_prototypes() -> None:
    devices = make_devices(CONFIG, toy())
    assert [d.prototype for d in devices] == ["mlp:fp32", "cnn:w1"] * 3
    assert sum(len(d.y) for d in devices) == 180
    assert all(sum(d.label_counts) == len(d.y) for d in devices)
    assert len({d.id for d in devices}) == 6


def test_attackers_train_on_wrong_labels_or_send_another_model() -> None:
    config = replace(CONFIG, prototypes=("mlp:fp32",), attack="malicious@0,faulty@1,free-rider@2")
    simulation, honest = (Simulation(c, toy()) for c in (config, replace(config, attack="")))
    (group,) = simulation.groups
    assert [d.attack and d.attack.name for d in group.devices[:4]] == ["malicious", "faulty", "free-rider", None]
    assert set(group.devices[0].y.tolist()) == {0}
    assert group.devices[0].label_counts == (len(group.devices[0].y), 0, 0)
    sent, true = ([u.state() for u in updates_of(s)] for s in (simulation, honest))
    noise = torch.cat([(sent[1][n] - true[1][n]).flatten() for n in true[1]])
    assert noise.std().item() == pytest.approx(20, rel=0.05)
    assert all(torch.equal(sent[2][n], group.state[n]) for n in sent[2])
    assert all(torch.equal(sent[3][n], true[3][n]) for n in sent[3])
    assert [d.get("attack") for d in simulation.new_run().fleet][:2] == ["malicious", "faulty"]


def test_an_inflating_device_trains_honestly_and_claims_more_than_it_has() -> None:
    config = replace(CONFIG, prototypes=("mlp:fp32",), attack="inflate=1000@0")
    simulation, honest = (Simulation(c, toy()) for c in (config, replace(config, attack="")))
    lie, truth = updates_of(simulation)[0], updates_of(honest)[0]
    assert lie.num_examples == 1000 * truth.num_examples == sum(lie.label_counts)
    assert lie.label_counts == tuple(1000 * count for count in truth.label_counts)
    assert all(torch.equal(w, truth.state()[name]) for name, w in lie.state().items())
    assert simulation.new_run().fleet[0]["labels"] == list(truth.label_counts), "run.json has what there is"
    capped = simulation.run_round(1).devices["sim-0"]["capped"]
    assert capped["claimed"] == lie.num_examples
    assert capped["counted"] < lie.num_examples / 100


@pytest.mark.parametrize(("ratio", "most"), [(0, 1.0), (3, 3 / 17)])
def test_one_liar_of_fifteen_has_the_whole_average_or_three_seventeenths_of_it(ratio: float, most: float) -> None:
    """The devices have 12 samples each."""
    config = replace(CONFIG, prototypes=("mlp:fp32",), devices=15, partition="iid", attack=f"inflate={2**53}@7")
    result = Simulation(replace(config, fusion={"max_examples_ratio": ratio}), toy()).run_round(1)
    assert result.devices["sim-07"]["weight"] == pytest.approx(most, abs=1e-9)
    assert (result.devices["sim-07"]["capped"] is None) == (not ratio)


def test_devices_that_keep_their_extractors_go_on_from_them() -> None:
    config = replace(CONFIG, prototypes=("mlp:fp32",), devices=2, update="predictor")
    simulation = Simulation(config, toy())
    (group,) = simulation.groups
    start = dict(group.state)
    result = simulation.run_round(1)
    one, two = (decode(device.kept["extractor"])["extractor.body.fc1.weight"] for device in group.devices)
    assert not (one == two).all()
    assert torch.equal(group.state["extractor.body.fc1.weight"], start["extractor.body.fc1.weight"])
    assert not torch.equal(group.state["predictor.weight"], start["predictor.weight"])
    facts = result.prototypes["mlp:fp32"]
    assert facts.device_accuracy is not None
    assert facts.bytes_up < 2 * 700  # 27 numbers, header and signature
    simulation.run_round(2)
    assert not (decode(group.devices[0].kept["extractor"])["extractor.body.fc1.weight"] == one).all()


def test_label_counts_are_told_with_noise_and_examples_with_them() -> None:
    plain, noised = (make_devices(c, toy()) for c in (CONFIG, replace(CONFIG, count_epsilon=0.2)))
    assert [d.label_counts for d in plain] != [d.label_counts for d in noised]
    assert all(torch.equal(a.y, b.y) for a, b in zip(plain, noised, strict=True))
    binned = make_devices(replace(CONFIG, count_bins=10), toy())
    assert all(count % 10 == 0 for device in binned for count in device.label_counts)


@pytest.mark.parametrize("changes", [{"update": "onnx"}, {"count_epsilon": 0.0}, {"count_bins": 1}])
def test_what_devices_cannot_send_is_refused(changes: dict) -> None:
    with pytest.raises(ConfigError, match=r"update|count"):
        replace(CONFIG, **changes)
