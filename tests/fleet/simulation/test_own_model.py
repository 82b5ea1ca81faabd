"""The model that a device has after a round is the one that is scored: at its precision, kept parts included."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from aggregator.evaluate import evaluate
from core.errors import ConfigError
from edge_agent.training.local_round import local_update
from fleet.simulation.config import SimulationConfig
from fleet.simulation.simulation import Simulation
from models.build import build
from quant.pack import load_packed, pack_state, unpack
from tests.fleet.simulation.test_simulation import CONFIG, toy
from wire.tensors import decode


def by_hand(config: SimulationConfig, seed: str = "train") -> dict[str, tuple[float, float]]:
    """Round 1 of every device, trained here: accuracy on its own slice by repeating test samples, and on all."""
    simulation = Simulation(config, toy())
    found = {}
    for group in simulation.groups:
        start = pack_state(group.state, floats=config.floats_of(group.model.spec.precision.quantized))
        for device in group.devices:
            model = build(group.model.spec)
            floats = device.floats(model)
            generator = torch.Generator().manual_seed(_seed(config, seed, 1, device.id))
            packed, _ = local_update(
                model, start, device.x, device.y, config.training, floats=floats, generator=generator
            )
            load_packed(model, packed)  # frozen: what the board runs
            model.eval()
            with torch.no_grad():
                right = (model(simulation.test_x).argmax(1) == simulation.test_y).numpy()
            counts = np.bincount(toy().y_train[device.rows], minlength=3)
            shares = counts[simulation.test_y.numpy()] / np.bincount(simulation.test_y.numpy())[simulation.test_y]
            found[device.id] = (float((right * shares).sum() / shares.sum()), float(right.mean()))
    return found


def _seed(config: SimulationConfig, *purpose: object) -> int:
    from core.seeds import derive_seed

    return derive_seed(config.seed, *purpose)


@pytest.mark.parametrize("changes", [{}, {"recipe": "local"}, {"update": "predictor"}], ids=["state", "none", "kept"])
def test_what_is_scored_is_the_model_after_its_training_at_its_precision(changes: dict) -> None:
    config = replace(CONFIG, alpha=0.3, rounds=1, **changes)
    result = Simulation(config, toy()).run_round(1)
    for name, (own, whole) in by_hand(config).items():
        assert result.devices[name]["own_accuracy"] == pytest.approx(own), name
        assert result.devices[name]["whole_accuracy"] == pytest.approx(whole), name
    mine = [f for d, f in result.devices.items() if int(d[-1]) % 2 == 0]  # of the first prototype
    fused = result.prototypes["mlp:fp32"]
    assert fused.own_accuracy == pytest.approx(np.mean([f["own_accuracy"] for f in mine]))
    assert fused.whole_worst == min(f["whole_accuracy"] for f in mine)
    assert (fused.device_accuracy is not None) == bool(changes)


def test_devices_are_scored_after_the_last_round_every_round_or_never() -> None:
    def scored(**changes: object) -> list[bool]:
        simulation = Simulation(replace(CONFIG, rounds=2, **changes), toy())
        rounds = [simulation.run_round(n) for n in (1, 2)]
        return [r.prototypes["mlp:fp32"].own_accuracy is not None for r in rounds]

    assert scored() == [False, True]
    assert scored(score_devices="every") == [True, True]
    assert scored(score_devices="every", score_every=2) == [False, True]
    assert scored(score_devices="never") == [False, False]
    assert scored(recipe="local") == [True, True]  # what the run is judged by
    assert scored(recipe="local", score_devices="never") == [False, False]
    with pytest.raises(ConfigError, match="--score-devices 'sometimes'; known: last every never"):
        replace(CONFIG, score_devices="sometimes")


def test_only_devices_that_answered_are_scored() -> None:
    result = Simulation(replace(CONFIG, rounds=1, fraction=0.34), toy()).run_round(1)
    assert len(result.devices) == 2
    assert all("own_accuracy" in facts for facts in result.devices.values())


def test_attackers_are_scored_by_their_true_labels_and_are_in_no_mean() -> None:
    config = replace(CONFIG, prototypes=("mlp:fp32",), alpha=0.3, rounds=1, attack="faulty@0")
    simulation = Simulation(config, toy())
    result = simulation.run_round(1)
    attacker = simulation.devices[0]
    assert attacker.true_counts == tuple(np.bincount(toy().y_train[attacker.rows], minlength=3))
    honest = [facts for name, facts in result.devices.items() if name != attacker.id]
    assert "own_accuracy" in result.devices[attacker.id]
    fused = result.prototypes["mlp:fp32"]
    assert fused.own_accuracy == pytest.approx(np.mean([facts["own_accuracy"] for facts in honest]))


def test_scoring_devices_changes_no_model() -> None:
    ends = []
    for when in ("never", "every"):
        simulation = Simulation(replace(CONFIG, rounds=2, score_devices=when), toy())
        for number in (1, 2):
            simulation.run_round(number)
        ends.append(simulation.groups)
    for one, two in zip(*ends, strict=True):
        assert all(torch.equal(w, two.state[name]) for name, w in one.state.items())


def test_a_kept_model_of_one_bit_is_not_scored_with_its_latent_weights() -> None:
    config = replace(CONFIG, prototypes=("cnn:w1",), devices=1, partition="iid", recipe="local", rounds=1)
    simulation = Simulation(config, toy())
    result = simulation.run_round(1)
    model = build(simulation.groups[0].model.spec)
    model.load_state_dict(unpack(decode(simulation.devices[0].kept["extractor"])), strict=False)
    at_one_bit = evaluate(model, simulation.test_x, simulation.test_y)  # through its quantizers
    assert result.devices["sim-0"]["whole_accuracy"] == at_one_bit.accuracy
