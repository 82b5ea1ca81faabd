"""The simulated fleet on a toy dataset: it learns, it repeats itself, its bytes are those of the messages."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from aggregator.evaluate import evaluate
from aggregator.recipes.generator import GUIDANCE
from aggregator.rounds.sampling import sample
from core.errors import ConfigError
from core.seeds import derive_seed
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE, Guidance
from edge_agent.training.params import LocalTraining
from fleet.data import Dataset
from fleet.results.run_file import RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import make_devices
from fleet.simulation.simulation import Simulation
from models.build import build
from quant.layers import weights_as_they_are
from quant.pack import load_packed, pack_state, unpack
from wire.tensors import decode

TRAINING = LocalTraining(lr=0.05, batch_size=8, epochs=2, momentum=0.9)
CONFIG = SimulationConfig(
    dataset="toy", devices=6, prototypes=("mlp:fp32", "cnn:w1"), training=TRAINING, alpha=5.0, rounds=3, latent=8
)


def toy(test: int = 60) -> Dataset:
    """Three classes of 8x8 images: a bright row, a bright column, a bright square, under noise."""
    rng = np.random.default_rng(0)
    n = 180 + test
    y = rng.integers(3, size=n).astype(np.int64)
    x = rng.normal(0, 0.4, (n, 1, 8, 8)).astype(np.float32)
    x[y == 0, :, 3, :] += 1.5
    x[y == 1, :, :, 3] += 1.5
    x[y == 2, :, 2:5, 2:5] += 1.5
    return Dataset(
        name="toy",
        kind="image",
        x_train=x[:180],
        y_train=y[:180],
        x_test=x[180:],
        y_test=y[180:],
        class_names=("row", "column", "square"),
    )


def test_every_prototype_learns() -> None:
    simulation = Simulation(CONFIG, toy())
    results = [simulation.run_round(n) for n in range(1, 9)]
    for name in CONFIG.prototypes:
        assert results[-1].prototypes[name].accuracy > 0.85, name
        assert results[-1].prototypes[name].train_loss < results[0].prototypes[name].train_loss, name
    assert results[-1].prototypes["mlp:fp32"].accuracy_float is None
    assert results[-1].prototypes["cnn:w1"].accuracy_float > 0.85


@pytest.mark.parametrize("recipe", ["fedavg", "feddf"])
def test_the_accuracy_of_a_run_is_that_of_the_bytes_a_board_would_run(recipe: str) -> None:
    """Counted anew from the published message, by the prototype's own layers; with float weights it is another."""
    config = replace(CONFIG, recipe=recipe, fusion={"steps": 20, "check_every": 5}, source="noise")
    with Simulation(config, toy()) as simulation:
        told = [simulation.run_round(n).prototypes["cnn:w1"] for n in (1, 2)][-1]
        group = simulation.groups[1]
        board = build(group.model.spec)
        load_packed(board, decode(simulation._published(group)))
        scored = evaluate(board, simulation.test_x, simulation.test_y)
        assert (told.accuracy, told.loss) == (scored.accuracy, pytest.approx(scored.loss))
        load_packed(board, pack_state(group.state, floats="fp32"))
        with weights_as_they_are(board):
            full = evaluate(board, simulation.test_x, simulation.test_y)
        assert (told.accuracy_float, told.full_precision) == (full.accuracy, full.accuracy)
        assert full.loss != pytest.approx(scored.loss), "or this test would tell nothing"


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    def accuracies(seed: int) -> list[float]:
        simulation = Simulation(replace(CONFIG, seed=seed), toy())
        rounds = [simulation.run_round(n) for n in (1, 2)]
        return [p.loss for r in rounds for p in r.prototypes.values()]

    assert accuracies(0) == accuracies(0)
    assert accuracies(0) != accuracies(1)


def test_bytes_are_those_of_the_messages() -> None:
    simulation = Simulation(CONFIG, toy())
    seen: list[str] = []
    result = simulation.run_round(1, on_device=seen.append)
    assert len(seen) == simulation.per_round == 6
    full, one_bit = (result.prototypes[name] for name in CONFIG.prototypes)
    parameters = {g.name: sum(p.numel() for p in g.model.parameters()) for g in simulation.groups}
    assert full.bytes_up > 3 * 4 * parameters["mlp:fp32"]  # three devices, four bytes a parameter
    assert full.bytes_up < 3 * (4 * parameters["mlp:fp32"] + 1000)
    assert one_bit.bytes_up < 3 * (parameters["cnn:w1"] / 8 + 2000)
    assert result.bytes_up == full.bytes_up + one_bit.bytes_up
    assert result.bytes_down > result.bytes_up  # down comes full precision


def test_fp16_halves_the_floats() -> None:
    small = Simulation(replace(CONFIG, floats="fp16"), toy()).run_round(1).prototypes["mlp:fp32"]
    full = Simulation(CONFIG, toy()).run_round(1).prototypes["mlp:fp32"]
    assert small.bytes_up < 0.52 * full.bytes_up
    assert small.loss == pytest.approx(full.loss, rel=0.02)


def test_a_fraction_invites_that_share_of_each_prototype_and_changes_by_round() -> None:
    simulation = Simulation(replace(CONFIG, devices=40, fraction=0.1, prototypes=("mlp:fp32", "cnn:fp32")), toy())
    group = simulation.groups[0]
    assert [len(simulation.invited(group, n)) for n in (1, 2)] == [2, 2]
    invited = {tuple(d.id for d in simulation.invited(group, n)) for n in range(1, 9)}
    assert len(invited) > 1
    assert simulation.invited(group, 1) == simulation.invited(group, 1)


def test_the_simulated_fleet_invites_whom_the_aggregator_would() -> None:
    simulation = Simulation(replace(CONFIG, devices=40, fraction=0.3, prototypes=("mlp:fp32", "cnn:fp32")), toy())
    fleet = {device.id: device.prototype for device in simulation.devices}
    for number in (1, 2, 3):
        asked = sample(fleet, CONFIG.seed, number, fraction=0.3)
        invited = [device.id for group in simulation.groups for device in simulation.invited(group, number)]
        assert sorted(invited) == list(asked)
        for group in simulation.groups:  # as drawn before there was one sampler
            rng = np.random.default_rng(derive_seed(CONFIG.seed, "invite", number, group.name))
            drawn = sorted(rng.choice(len(group.devices), round(0.3 * len(group.devices)), replace=False))
            assert simulation.invited(group, number) == [group.devices[i] for i in drawn]


def test_the_fused_model_is_the_example_weighted_mean_of_the_updates() -> None:
    """One round of one full-precision prototype, done again by hand."""
    config = replace(CONFIG, prototypes=("mlp:fp32",), devices=3)
    simulation, by_hand = Simulation(config, toy()), Simulation(config, toy())
    simulation.run_round(1)
    from edge_agent.training.local_round import local_update
    from fleet.simulation.seeds import torch_rng
    from quant.pack import pack_state, unpack
    from wire.tensors import encode

    (group,) = by_hand.groups
    published = encode(pack_state(group.state))
    updates = [
        unpack(
            local_update(
                group.model,
                published,
                d.x,
                d.y,
                TRAINING,
                floats="fp32",
                generator=torch_rng(0, "train", 1, d.id),
            )[0]
        )
        for d in group.devices
    ]
    sizes = [len(d.y) for d in group.devices]
    for name, fused in simulation.groups[0].state.items():
        expected = sum(u[name] * (n / sum(sizes)) for u, n in zip(updates, sizes, strict=True))
        torch.testing.assert_close(fused, expected, rtol=1e-5, atol=1e-6)


def test_a_dataset_without_a_test_part_gets_one_held_out() -> None:
    simulation = Simulation(CONFIG, toy(test=0))
    assert len(simulation.test_y) == 35  # a fifth of each class, rounded
    assert sum(len(d.y) for g in simulation.groups for d in g.devices) == 145


def test_the_run_records_the_fleet() -> None:
    run = Simulation(CONFIG, toy()).new_run()
    assert [d["device"] for d in run.fleet] == [f"sim-{i}" for i in range(6)]
    assert run.to_json()["config"]["training"]["epochs"] == 2


def test_prototypes_learn_from_each_other_and_the_round_says_how() -> None:
    fusion = {"steps": 10, "check_every": 5, "batch_size": 16}
    simulation = Simulation(replace(CONFIG, recipe="fedrad", fusion=fusion, compute="cpu"), toy())
    result = simulation.run_round(1)
    for name in CONFIG.prototypes:
        prototype = result.prototypes[name]
        assert prototype.distill_steps == 10
        assert 0 <= prototype.average_accuracy <= 1
        assert prototype.ensemble_accuracy == result.prototypes["mlp:fp32"].ensemble_accuracy
        mine = [d.id for g in simulation.groups if g.name == name for d in g.devices]
        assert sum(result.devices[d]["weight"] for d in mine) == pytest.approx(1)
    assert sum(facts["score"] for facts in result.devices.values()) == pytest.approx(1)
    assert set(result.seconds_by) >= {"train", "encode", "screen", "weigh", "average", "teach", "distill"}
    held = len(simulation.server.source) + len(simulation.server.validation[1])
    assert held + sum(len(d.y) for g in simulation.groups for d in g.devices) == 180


def test_a_model_that_diverged_is_not_sent_and_the_others_go_on() -> None:
    config = replace(CONFIG, prototypes=("mlp:fp32",), training=replace(TRAINING, lr=1000.0, momentum=0.0))
    simulation = Simulation(config, toy())
    before = {name: w.clone() for name, w in simulation.groups[0].state.items()}
    told = simulation.run_round(1)
    result = told.prototypes["mlp:fp32"]
    assert (result.devices, result.train_loss, result.bytes_up) == (0, None, 0)
    assert told.lost == {f"sim-{n}": "training diverged: weights are NaN or infinite" for n in range(6)}
    assert (told.asked, told.to_json()["lost"]) == (6, told.lost)
    assert all(torch.equal(before[name], w) for name, w in simulation.groups[0].state.items())


@pytest.mark.parametrize("engine", ["inline", "processes"])
@pytest.mark.parametrize("together", [0, 1], ids=["stacked", "alone"])
def test_a_lost_device_is_named_wherever_it_trains(engine: str, together: int) -> None:
    dataset = toy()
    config = replace(
        CONFIG,
        prototypes=("mlp:fp32",),
        training=replace(TRAINING, clip=1.0),
        engine=engine,
        workers=1,
        batch_devices=together,
        attack="malicious@3",
    )
    devices, x = make_devices(config, dataset), dataset.x_train.copy()
    for number in (1, 3):
        x[devices[number].rows] = 1e30  # what a broken sensor gives
    with Simulation(config, replace(dataset, x_train=x)) as simulation:
        result = simulation.run_round(1)
    assert result.lost == dict.fromkeys(("sim-1", "sim-3"), "training diverged: the gradient is not finite")
    assert (result.prototypes["mlp:fp32"].devices, result.asked) == (4, 6)
    assert RoundResult.from_json(result.to_json()).lost == result.lost


def test_rounds_between_scores_have_none_and_come_to_the_same_models() -> None:
    every, third = (Simulation(replace(CONFIG, score_every=n), toy()) for n in (1, 2))
    results = [third.run_round(n) for n in (1, 2, 3)]
    for n in (1, 2, 3):
        every.run_round(n)
    scored = ["accuracy" in r.to_json()["prototypes"]["mlp:fp32"] for r in results]
    assert scored == [False, True, True]  # the last one always is
    assert all(
        torch.equal(a.state[n], b.state[n]) for a, b in zip(every.groups, third.groups, strict=True) for n in a.state
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prototypes": ()}, "no prototypes"),
        ({"prototypes": ("cnn:w1", "cnn:w1")}, "given twice"),
        ({"devices": 1}, "1 devices for 2 prototypes"),
        ({"rounds": 0}, "--rounds 0; give at least 1"),
        ({"fraction": 0.0}, "--fraction 0;"),
        ({"fraction": 1.5}, "fraction 1.5"),
        ({"alpha": 0.0}, "--alpha 0; give at least 1e-06"),
        ({"latent": 0}, "--latent 0; give at least 1"),
        ({"floats": "fp8"}, "floats 'fp8'"),
        ({"recipe": "fedvag"}, "unknown recipe 'fedvag'; did you mean 'fedavg'"),
        ({"fusion": {"stepz": 3}}, "unknown key 'stepz'; did you mean 'steps'"),
        ({"attack": "faulty:7"}, "7 attackers, but 6 devices"),
        ({"attack": "faulty:1", "transport": "mqtt"}, "--attack faulty requires --transport memory"),
        ({"processes": 0}, "--processes 0; give at least 1"),
        ({"engine": "procesess"}, "engine 'procesess'; known: inline processes ray; did you mean 'processes'"),
        ({"workers": -1}, "--workers -1; give at least 0"),
        ({"score_every": 0}, "--score-every 0; give at least 1"),
    ],
)
def test_a_bad_setting_is_named(change: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(CONFIG, **change)


SMALL = {"generator_noise_width": 8, "generator_hidden": 32, "generator_steps": 20}


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": "fedgen", "fusion": SMALL},
        {"recipe": "feddistill+"},
        {"recipe": "edgestill", "fusion": SMALL, "source": "none"},
    ],
    ids=lambda changes: changes["recipe"],
)
def test_fleets_that_learn_from_more_than_a_model_learn(changes: dict) -> None:
    simulation = Simulation(replace(CONFIG, prototypes=("mlp:fp32",), **changes), toy())
    results = [simulation.run_round(n) for n in range(1, 6)]
    assert results[-1].prototypes["mlp:fp32"].accuracy > 0.8
    assert simulation.side_artifact_bytes > 0
    first, second = (r.prototypes["mlp:fp32"].bytes_down for r in results[:2])
    assert second == first + 6 * simulation.side_artifact_bytes
    assert "generate" in results[-1].seconds_by


def test_without_sharing_models_devices_learn_from_logits() -> None:
    simulation = Simulation(replace(CONFIG, prototypes=("mlp:fp32",), recipe="feddistill"), toy())
    results = [simulation.run_round(n) for n in range(1, 4)]
    mine = [r.prototypes["mlp:fp32"] for r in results]
    assert mine[-1].device_accuracy > mine[0].device_accuracy
    assert mine[-1].accuracy == mine[0].accuracy  # of the model that nobody changes
    assert mine[0].bytes_up < 6 * 600


def test_local_training_alone_leaves_the_fused_model_and_improves_the_devices() -> None:
    simulation = Simulation(replace(CONFIG, prototypes=("mlp:fp32",), recipe="local"), toy())
    start = {name: w.clone() for name, w in simulation.groups[0].state.items()}
    results = [simulation.run_round(n) for n in range(1, 4)]
    mine = [r.prototypes["mlp:fp32"] for r in results]
    assert mine[-1].device_accuracy > mine[0].device_accuracy
    assert all(torch.equal(w, start[name]) for name, w in simulation.groups[0].state.items())
    alone = replace(CONFIG, prototypes=("mlp:fp32",), recipe="local", devices=1, partition="iid")
    once = Simulation(alone, toy())
    once.run_round(1)
    shared = Simulation(replace(alone, recipe="fedavg"), toy())
    shared.run_round(1)
    kept = unpack(decode(once.devices[0].kept["extractor"]))
    assert all(torch.equal(w, shared.groups[0].state[name]) for name, w in kept.items())  # the same training


def test_what_the_aggregator_tells_is_what_devices_read() -> None:
    assert GUIDANCE["reference"] == REFERENCE.to_extra()
    assert Guidance.from_extra(GUIDANCE["paper"]) == PAPER
