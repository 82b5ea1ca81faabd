"""Attackers: what they do to labels and models, how they are written, where they sit."""

import subprocess
import sys

import pytest
import torch

from core.errors import ConfigError
from edge_agent.training.local_round import local_update
from edge_agent.training.params import LocalTraining
from fleet.attacks.builtin import ATTACKS, Attack, Order, check_over_mqtt, parse_attacks, seat
from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype
from quant.pack import pack, pack_state, unpack
from quant.precision import PRECISIONS, parse_precision
from wire.tensors import decode, encode

Y = torch.tensor([0, 1, 2, 3])
TRAINED = {"w": torch.tensor([3.0, 1.0]), "b": torch.tensor([2.0])}
RECEIVED = {"w": torch.tensor([1.0, 1.0]), "b": torch.tensor([0.0]), "other": torch.tensor([9.0])}


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def attack(name: str) -> Attack:
    return Attack(name, ATTACKS[name])


def tampered(name: str) -> dict[str, list[float]]:
    return {key: value.tolist() for key, value in attack(name).tamper(TRAINED, RECEIVED, rng()).items()}


def test_labels_are_set_to_zero_mirrored_or_left_alone() -> None:
    assert attack("malicious").labels(Y, 4).tolist() == [0, 0, 0, 0]
    assert attack("label-flip").labels(Y, 4).tolist() == [3, 2, 1, 0]
    assert attack("faulty").labels(Y, 4).tolist() == [0, 1, 2, 3]


def test_sign_flip_scaling_and_free_riding_by_hand() -> None:
    assert tampered("sign-flip") == {"w": [-1.0, 1.0], "b": [-2.0]}
    assert tampered("scaled") == {"w": [21.0, 1.0], "b": [20.0]}
    assert tampered("free-rider") == {"w": [1.0, 1.0], "b": [0.0]}


@pytest.mark.parametrize("name", ["malicious", "label-flip"])
def test_who_trains_on_wrong_labels_sends_what_came_of_it(name: str) -> None:
    assert tampered(name) == {"w": [3.0, 1.0], "b": [2.0]}


def test_a_faulty_device_adds_noise_of_standard_deviation_20() -> None:
    w = {"w": torch.full((100, 100), 5.0)}
    noise = attack("faulty").tamper(w, {}, rng())["w"] - 5
    assert noise.std().item() == pytest.approx(20, rel=0.03)
    assert noise.mean().item() == pytest.approx(0, abs=0.6)
    again, other = (attack("faulty").tamper(w, {}, rng(seed))["w"] - 5 for seed in (0, 1))
    assert torch.equal(noise, again)
    assert not torch.equal(noise, other)


HOW = LocalTraining(lr=0.05, batch_size=8, epochs=1)


def prototype(precision: str) -> Prototype:
    return build(PrototypeSpec("cnn", parse_precision(precision), (1, 8, 8), 4, 8), generator=rng(3))


def sent(precision: str, name: str | None) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """What the aggregator reads of one device's update, and the model that it had published."""
    model = prototype(precision)
    published = encode(pack_state(model.state_dict()))
    x, y = torch.randn(16, 1, 8, 8, generator=rng(1)), torch.randint(4, (16,), generator=rng(2))
    tensors, _ = local_update(model, published, x, y, HOW, floats="fp32", generator=rng(4))
    if name is not None:
        attack(name).tamper_(model, unpack(decode(published)), rng())
        tensors = pack(model, floats="fp32")
    return unpack(decode(encode(tensors))), unpack(decode(published))


@pytest.mark.parametrize("precision", [str(precision) for precision in PRECISIONS])
def test_noise_survives_the_packing_of_every_precision(precision: str) -> None:
    honest, _ = sent(precision, None)
    faulty, _ = sent(precision, "faulty")
    parameters = dict(prototype(precision).named_parameters())
    for name, value in faulty.items():
        assert value.isfinite().all()
        if name not in parameters:
            assert torch.equal(value, honest[name]), "running statistics are honest"
        elif value.ndim > 1:
            assert (value - honest[name]).std() > 5, name


def test_a_quantized_scaled_device_sends_the_levels_of_the_scaled_model() -> None:
    honest, received = sent("w1", None)
    scaled, _ = sent("w1", "scaled")
    moved = {"honest": 0.0, "scaled": 0.0}
    for name in (name for name, value in received.items() if value.ndim == 4):
        assert scaled[name].unique().numel() <= 2 * len(scaled[name]), "two values per filter"
        moved["honest"] += float((honest[name] - received[name]).square().sum())
        moved["scaled"] += float((scaled[name] - received[name]).square().sum())
    assert moved["scaled"] > 1.05**2 * moved["honest"]


def test_a_free_rider_sends_the_received_model_running_statistics_included() -> None:
    free, received = sent("fp32", "free-rider")
    assert free.keys() == received.keys()
    assert all(torch.equal(free[name], received[name]) for name in free)


def test_sign_flip_moves_a_model_the_other_way_by_as_much() -> None:
    honest, received = sent("fp32", None)
    flipped, _ = sent("fp32", "sign-flip")
    name = "predictor.weight"
    assert not torch.equal(honest[name], received[name])
    torch.testing.assert_close(flipped[name] - received[name], received[name] - honest[name])


def test_inflating_scales_label_counts_up_to_the_largest_count_and_nothing_else() -> None:
    assert Attack("inflate", 4.0).claims((1, 0, 3)) == (4, 0, 12)
    assert Attack("inflate", 2.0**53).claims((1, 0, 3)) == (2**51, 0, 3 * 2**51)
    assert sum(Attack("inflate", 1e300).claims((7, 11, 13))) <= 2**53
    assert Attack("inflate", 4.0).claims((0, 0)) == (0, 0)
    assert attack("faulty").claims((1, 2)) == (1, 2)
    assert not attack("inflate").tampers
    assert attack("inflate").labels(Y, 4).tolist() == Y.tolist()
    assert tampered("inflate") == {"w": [3.0, 1.0], "b": [2.0]}


def test_orders_are_parsed() -> None:
    assert parse_attacks("faulty:6, malicious:4") == (Order(Attack("faulty", 20.0), 6), Order(Attack("malicious"), 4))
    assert parse_attacks("scaled=5@2+7") == (Order(Attack("scaled", 5.0), 2, (2, 7)),)
    assert parse_attacks("") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fualty:3", "did you mean 'faulty'"),
        ("faulty", "NAME:COUNT"),
        ("faulty:x", "NAME:COUNT"),
        ("faulty:-1", "NAME:COUNT"),
        ("faulty@", "NAME:COUNT"),
        ("faulty=0:3", "not a positive number"),
        ("faulty=inf:3", "not a positive number"),
        ("malicious=3:3", "has no strength"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_attacks(text)
    assert "\n" not in str(caught.value)


def seats(text: str, devices: int, **options: int) -> dict[int, str]:
    return {i: attack.name for i, attack in seat(parse_attacks(text), devices, **options).items()}


def test_seats_are_those_of_fedrad() -> None:
    assert list(seats("faulty:10", 30)) == list(range(2, 30, 3))
    mixed = seats("faulty:5,malicious:5", 30)
    assert [i for i, name in mixed.items() if name == "faulty"] == [2, 5, 8, 11, 14]
    assert [i for i, name in mixed.items() if name == "malicious"] == [17, 20, 23, 26, 29]


def test_seats_do_not_depend_on_the_seed_with_one_prototype_and_kinds_do_with_several() -> None:
    assert seats("faulty:3,malicious:3", 12, seed=1) == seats("faulty:3,malicious:3", 12, seed=2)
    several = [seats("faulty:5,malicious:5", 30, prototypes=3, seed=seed) for seed in range(3)]
    assert several[0] == seats("faulty:5,malicious:5", 30, prototypes=3, seed=0)
    assert len({tuple(s.values()) for s in several}) == 3
    assert {tuple(s) for s in several} == {tuple(several[0])}


def test_attackers_are_spread_over_the_prototypes() -> None:
    of_prototype = [i % 3 for i in seats("faulty:9", 30, prototypes=3)]
    assert sorted(of_prototype.count(p) for p in range(3)) == [3, 3, 3]


def test_named_devices_keep_their_seats() -> None:
    assert seats("malicious@0+1,faulty:2", 6) == {0: "malicious", 1: "malicious", 3: "faulty", 5: "faulty"}


def test_all_devices_may_attack_and_no_more() -> None:
    assert list(seats("faulty:4", 4)) == [0, 1, 2, 3]
    assert seats("", 4) == {}
    with pytest.raises(ConfigError, match="5 attackers, but 4 devices"):
        seats("faulty:5", 4)
    with pytest.raises(ConfigError, match="devices 0 to 3"):
        seats("faulty@4", 4)
    with pytest.raises(ConfigError, match="named twice"):
        seats("faulty@1,malicious@1", 4)


def test_over_mqtt_data_can_be_poisoned_and_models_cannot() -> None:
    check_over_mqtt(parse_attacks("malicious:2,label-flip:1"))
    with pytest.raises(ConfigError, match="faulty requires --transport memory"):
        check_over_mqtt(parse_attacks("malicious:2,faulty:1"))


def test_reading_orders_needs_no_torch() -> None:
    code = (
        "import sys, fleet.attacks.builtin as a; a.seat(a.parse_attacks('faulty:2'), 4); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
